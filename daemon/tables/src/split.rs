//! Cutting a large row state into deltas that merge to it again, by cell and by what hangs on it.
//!
//! Cuts are made by a size that is never below the encoded one, so a piece fits where it should.

use std::collections::BTreeSet;

use tidings_wire::Stamp;

use crate::cbor::encode_value;
use crate::cell::{Base, Cell, Dot, Hanging};
use crate::path::Path;
use crate::row::Row;

/// Cuts a row into deltas of at most `limit` bytes each; one that holds a single value may be as
/// much larger as that value needs.
pub(crate) fn split(row: &Row, limit: usize) -> Vec<Row> {
    let mut pieces = Vec::new();
    let mut piece = Piece::of(row);
    for (path, cell) in &row.cells {
        for atom in atoms(path, cell, limit) {
            if !piece.is_empty() && piece.size_with(path, &atom) > limit {
                pieces.push(std::mem::replace(&mut piece, Piece::of(row)).row);
            }
            piece.add(path, &atom);
        }
    }
    pieces.push(piece.row);
    pieces
}

/// A delta that is being filled.
struct Piece {
    row: Row,
    stamps: BTreeSet<Stamp>,
    size: usize,
}

impl Piece {
    /// A piece with what every piece carries.
    fn of(row: &Row) -> Self {
        let row = Row { cells: Default::default(), ..row.clone() };
        let size = row.encode().len() + HEAD;
        let stamps = row
            .cleared
            .iter()
            .flat_map(|cleared| [cleared.stamp, cleared.replaced])
            .chain(row.life.map(|life| life.stamp))
            .chain([row.version])
            .collect();
        Self { row, stamps, size }
    }

    fn is_empty(&self) -> bool {
        self.row.cells.is_empty()
    }

    fn size_with(&self, path: &Path, atom: &Cell) -> usize {
        let new = stamps(atom).filter(|stamp| !self.stamps.contains(stamp));
        // The same stamp may be counted twice, which only overestimates.
        self.size + size(path, atom) + new.count() * STAMP
    }

    fn add(&mut self, path: &Path, atom: &Cell) {
        self.size = self.size_with(path, atom);
        self.stamps.extend(stamps(atom));
        match self.row.cells.get_mut(path) {
            Some(cell) => {
                cell.join(atom, Stamp::ZERO);
            }
            None => {
                self.row.cells.insert(path.clone(), atom.clone());
            }
        }
    }
}

/// The cell whole, or its base, its increments and its dots apart if it is large.
fn atoms(path: &Path, cell: &Cell, limit: usize) -> Vec<Cell> {
    let whole = size(path, cell) + stamps(cell).count() * STAMP;
    let Some(hanging) = cell.hanging.as_ref().filter(|_| whole > limit / 2) else {
        return vec![cell.clone()];
    };
    let mut atoms = Vec::new();
    if cell.base.is_some() {
        atoms.push(Cell { base: cell.base.clone(), hanging: None });
    }
    let mut hang = |part: Hanging| atoms.push(Cell { base: None, hanging: Some(Box::new(part)) });
    for (incarnation, increment) in &hanging.increments {
        let mut part = Hanging::on(hanging.on);
        part.increments.insert(*incarnation, *increment);
        hang(part);
    }
    for dot in hanging.dots.values() {
        for stamps in dot_parts(dot) {
            let mut part = Hanging::on(hanging.on);
            part.put_dot(stamps);
            hang(part);
        }
    }
    atoms
}

/// A dot cut by its stamps; each part repeats the value, which is its key.
fn dot_parts(dot: &Dot) -> Vec<Dot> {
    let stamps: Vec<_> = dot
        .added
        .iter()
        .map(|stamp| (*stamp, true))
        .chain(dot.removed.iter().map(|stamp| (*stamp, false)))
        .collect();
    let part = |chunk: &[(Stamp, bool)]| {
        let of = |added| chunk.iter().filter(move |part| part.1 == added).map(|part| part.0);
        Dot { value: dot.value.clone(), added: of(true).collect(), removed: of(false).collect() }
    };
    stamps.chunks(DOT_STAMPS).map(part).collect()
}

/// At least what the cell takes in its row's encoding, its stamps aside.
fn size(path: &Path, cell: &Cell) -> usize {
    let keys: usize = path.keys().iter().map(|key| key.len() + HEAD).sum();
    let value = cell.base().and_then(Base::value);
    let base = value.map_or(1, |value| encode_value(value).len());
    let hanging = cell.hanging.as_ref().map_or(0, |hanging| {
        let dots = hanging.dots.values().map(|dot| {
            encode_value(&dot.value).len() + 3 * HEAD + (dot.added.len() + dot.removed.len()) * HEAD
        });
        hanging.increments.len() * INCREMENT + dots.sum::<usize>() + 4 * HEAD
    });
    4 * HEAD + keys + base + hanging
}

/// The stamps a cell names.
fn stamps(cell: &Cell) -> impl Iterator<Item = Stamp> {
    let dots = cell.hanging.iter().flat_map(|hanging| hanging.dots.values());
    let base = cell.base().into_iter().flat_map(|base| [base.stamp, base.replaced]);
    base.chain(cell.hanging.iter().map(|hanging| hanging.on))
        .chain(dots.flat_map(|dot| dot.added.iter().chain(&dot.removed)).copied())
}

/// A head of CBOR, at most: lengths and places below 2^32.
const HEAD: usize = 5;
/// A stamp in the row's list.
const STAMP: usize = 17;
/// Incarnation, count and sum.
const INCREMENT: usize = 9 + 1 + 9 + 17;
/// Stamps of one dot that travel together.
const DOT_STAMPS: usize = 1_024;
