//! A cell: what was written at one path of a row, and how two states of it merge.
//!
//! A cell stands on a *base*, the last value that replaced everything before it, named by its
//! stamp. Increments and set dots hang on that base and count only with it. A greater base wins
//! whole; on the same base increments and dots join.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use tidings_wire::{Incarnation, Stamp};

use crate::cbor::encode_value;
use crate::number::Exact;
use crate::order::value_key;
use crate::value::Value;

/// The state of one path.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The stamp of the base, which is the row's or an ancestor's where the base is inherited.
    pub(crate) stamp: Stamp,
    pub(crate) base: Base,
    /// What was added since, if anything.
    pub(crate) hanging: Option<Box<Hanging>>,
}

/// What a cell's increments and dots add to.
#[derive(Debug, Clone, PartialEq)]
pub enum Base {
    /// Whatever the nearest written ancestor, or the row as it was cleared, holds there.
    Inherited,
    /// A write of this path: its value, or none where the path was removed.
    Written {
        /// The value; `None` where the write removed it.
        value: Option<Value>,
        /// The greatest stamp that the writer saw replaced by this write, for the conflict
        /// journal.
        replaced: Stamp,
    },
}

/// Increments and dots.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hanging {
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
    /// The stamp of the base.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// What the increments and dots add to.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// The greatest stamp of anything in the cell.
    pub(crate) fn newest(&self) -> Stamp {
        let dots = self.hanging.iter().flat_map(|hanging| hanging.dots.values());
        dots.filter_map(|dot| dot.added.last().max(dot.removed.last()))
            .fold(self.stamp, |newest, stamp| newest.max(*stamp))
    }

    /// Joins another state of the same path; true if this one changed.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        match self.stamp.cmp(&other.stamp) {
            Ordering::Greater => false,
            Ordering::Less => {
                *self = other.clone();
                true
            }
            Ordering::Equal => {
                let base = self.base.join(&other.base);
                let hanging = match (&mut self.hanging, &other.hanging) {
                    (_, None) => false,
                    (None, Some(theirs)) => {
                        self.hanging = Some(theirs.clone());
                        true
                    }
                    (Some(ours), Some(theirs)) => ours.join(theirs),
                };
                base || hanging
            }
        }
    }
}

impl Base {
    /// Joins the same base as another state has it. Equal stamps with different values do not
    /// come from our writers; the greater encoding wins then, so that every replica agrees.
    fn join(&mut self, other: &Self) -> bool {
        match (&mut *self, other) {
            (_, Self::Inherited) => false,
            (Self::Inherited, _) => {
                *self = other.clone();
                true
            }
            (
                Self::Written { value, replaced },
                Self::Written { value: their_value, replaced: their_replaced },
            ) => {
                let lower = *their_replaced < *replaced;
                *replaced = (*replaced).min(*their_replaced);
                let encoding = |value: &Option<Value>| value.as_ref().map(encode_value);
                let wins = value != their_value && encoding(value) < encoding(their_value);
                if wins {
                    value.clone_from(their_value);
                }
                lower || wins
            }
        }
    }
}

impl Hanging {
    fn join(&mut self, other: &Self) -> bool {
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
