//! A cell: what was written at one path of a row, and how two states of it merge.
//!
//! A *base* is the last value that replaced everything before it at its path and below, and is
//! named by its stamp. Increments and set dots hang on a base, this cell's own or an ancestor's,
//! and count only with it. A greater base wins whole; on the same base increments and dots join.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use tidings_wire::{Incarnation, Stamp};

use crate::cbor::encode_value;
use crate::number::Exact;
use crate::order::value_key;
use crate::value::Value;

/// The state of one path; never empty in a row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// The last write of the path itself, if there is one.
    pub(crate) base: Option<Base>,
    /// What was added since, if anything. On a base greater than any that arrived it waits for
    /// that one; the older base is shown until then.
    pub(crate) hanging: Option<Box<Hanging>>,
}

/// A write of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Base {
    pub(crate) stamp: Stamp,
    /// The value; `None` where the write removed it.
    pub(crate) value: Option<Value>,
    /// The greatest stamp that the writer saw replaced by this write, for the conflict journal.
    pub(crate) replaced: Stamp,
}

/// Increments and dots on one base.
#[derive(Debug, Clone, PartialEq)]
pub struct Hanging {
    /// The stamp of the base: of this path's last write, of an ancestor's, or of the clearing of
    /// the row.
    pub(crate) on: Stamp,
    /// Each replica's own sum, which only that replica raises.
    pub(crate) increments: BTreeMap<Incarnation, Increment>,
    /// Values added to and removed from a set, by [`value_key`].
    pub(crate) dots: BTreeMap<Vec<u8>, Dot>,
}

/// How often one replica added to a number, and what these additions sum to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Increment {
    pub(crate) count: u64,
    pub(crate) sum: Sum,
}

/// A sum of increments: exact while all were integers.
#[derive(Debug, Clone, Copy)]
pub enum Sum {
    /// All increments were integers.
    Int(i128),
    /// At least one was a float; finite.
    Float(f64),
}

/// One value of a set: the stamps that added it and those seen and removed.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    pub(crate) value: Value,
    /// Stamps that added the value and are not known to be removed.
    pub(crate) added: BTreeSet<Stamp>,
    /// Stamps that were seen and removed; the base's own stamp removes its items.
    pub(crate) removed: BTreeSet<Stamp>,
}

impl Cell {
    /// The last write of the path itself, if there is one.
    pub fn base(&self) -> Option<&Base> {
        self.base.as_ref()
    }

    /// The stamp of the last write of the path itself.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        self.base.as_ref().map(|base| base.stamp)
    }

    /// The greatest stamp of anything that was written to the cell.
    pub(crate) fn newest(&self) -> Option<Stamp> {
        let dots = self.hanging.iter().flat_map(|hanging| hanging.dots.values());
        dots.flat_map(|dot| [dot.added.last(), dot.removed.last()])
            .flatten()
            .copied()
            .chain(self.stamp())
            .max()
    }

    /// Joins what is at or above `floor` of another state of the same path; true if this one
    /// changed.
    pub(crate) fn join(&mut self, other: &Self, floor: Stamp) -> bool {
        let base = match (&mut self.base, &other.base) {
            (_, Some(theirs)) if theirs.stamp < floor => false,
            (Some(ours), Some(theirs)) => ours.join(theirs),
            (None, Some(theirs)) => {
                self.base = Some(theirs.clone());
                true
            }
            (_, None) => false,
        };
        let floor = self.stamp().map_or(floor, |stamp| stamp.max(floor));
        let hanging = match (&mut self.hanging, &other.hanging) {
            (_, Some(theirs)) if theirs.on < floor => false,
            (Some(ours), Some(theirs)) => ours.join(theirs),
            (None, Some(theirs)) => {
                self.hanging = Some(theirs.clone());
                true
            }
            (_, None) => false,
        };
        self.drop_older(floor);
        base || hanging
    }

    /// Drops what is older than `floor`, and what hangs on a base that was replaced; true if
    /// nothing is left.
    pub(crate) fn drop_older(&mut self, floor: Stamp) -> bool {
        self.base = self.base.take().filter(|base| base.stamp >= floor);
        let floor = self.stamp().unwrap_or(floor);
        self.hanging = self.hanging.take().filter(|hanging| hanging.on >= floor);
        self.base.is_none() && self.hanging.is_none()
    }
}

impl Base {
    /// The stamp of the write.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// What was written; `None` where the write removed the value.
    pub fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// The greatest stamp that the writer saw replaced by this write.
    pub fn replaced(&self) -> Stamp {
        self.replaced
    }

    /// The greater stamp wins. One stamp with two values does not come from our writers; the
    /// greater encoding wins then, so that every replica agrees.
    fn join(&mut self, other: &Self) -> bool {
        match self.stamp.cmp(&other.stamp) {
            Ordering::Greater => false,
            Ordering::Less => {
                *self = other.clone();
                true
            }
            Ordering::Equal => {
                let lower = other.replaced < self.replaced;
                self.replaced = self.replaced.min(other.replaced);
                let encoding = |value: &Option<Value>| value.as_ref().map(encode_value);
                let wins =
                    self.value != other.value && encoding(&self.value) < encoding(&other.value);
                if wins {
                    self.value.clone_from(&other.value);
                }
                lower || wins
            }
        }
    }
}

impl Hanging {
    /// Nothing yet, on the base with that stamp.
    pub(crate) fn on(base: Stamp) -> Self {
        Self { on: base, increments: BTreeMap::new(), dots: BTreeMap::new() }
    }

    fn join(&mut self, other: &Self) -> bool {
        match self.on.cmp(&other.on) {
            Ordering::Greater => false,
            Ordering::Less => {
                *self = other.clone();
                true
            }
            Ordering::Equal => self.join_same(other),
        }
    }

    fn join_same(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (incarnation, theirs) in &other.increments {
            let ours = self.increments.entry(*incarnation).or_insert_with(|| {
                changed = true;
                *theirs
            });
            if ours.order(theirs).is_lt() {
                *ours = *theirs;
                changed = true;
            }
        }
        for (key, theirs) in &other.dots {
            match self.dots.get_mut(key) {
                None => {
                    self.dots.insert(key.clone(), theirs.clone());
                    changed = true;
                }
                Some(ours) => changed |= ours.join(theirs),
            }
        }
        changed
    }

    /// Adds a dot that was decoded or written.
    pub(crate) fn put_dot(&mut self, dot: Dot) {
        self.dots.insert(value_key(&dot.value), dot);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.increments.is_empty() && self.dots.is_empty()
    }
}

impl Increment {
    /// The greater of two states of one replica's increments is the later one.
    fn order(&self, other: &Self) -> Ordering {
        self.count.cmp(&other.count).then_with(|| self.sum.order(&other.sum))
    }
}

impl Sum {
    /// By value; for the same value, floats above integers and `0.0` above `-0.0`.
    fn order(&self, other: &Self) -> Ordering {
        let rank = |sum: &Self| match *sum {
            Self::Int(value) => (Exact::of_integer(value), None),
            Self::Float(value) => (Exact::of_float(value), Some(value.is_sign_positive())),
        };
        rank(self).cmp(&rank(other))
    }
}

impl PartialEq for Sum {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl Dot {
    fn join(&mut self, other: &Self) -> bool {
        let before = (self.added.clone(), self.removed.len());
        self.removed.extend(&other.removed);
        self.added.extend(&other.added);
        self.added.retain(|stamp| !self.removed.contains(stamp));
        // Values under one key are the same in the order of values, but may differ as `1` and
        // `1.0` do.
        let wins =
            self.value != other.value && encode_value(&self.value) < encode_value(&other.value);
        if wins {
            self.value = other.value.clone();
        }
        wins || before != (self.added.clone(), self.removed.len())
    }

    /// The stamp at which the value stands in the set, if it is in it.
    pub(crate) fn since(&self) -> Option<Stamp> {
        self.added.first().copied()
    }
}
