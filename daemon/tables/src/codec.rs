//! Rows and deltas as CBOR, in the body of a blob and in the replica alike (docs/protocol.md).
//!
//! A row begins with the sorted list of its stamps; everything after it names a stamp by its
//! place in that list, from 1, and 0 is [`Stamp::ZERO`]. Every state has one encoding, and the
//! decoder takes no other.
//!
//! ```text
//! row     = [stamps, version, life, cleared, cells]
//! life    = null / [stamp, alive]              cleared = null / [stamp, replaced]
//! cell    = [path, stamp, replaced, base] / [path, stamp, replaced, base, hanging]
//!         / [path, hanging]
//! path    = text / [2* text]                   base    = value / undefined (removed)
//! hanging = [base's stamp, {incarnation => [count, sum]}, [dot]]
//! sum     = int / 16 bytes (past 64 bits) / float     dot = [value, [added], [removed]]
//! ```

use std::collections::{BTreeMap, BTreeSet};

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use tidings_wire::{Incarnation, Stamp, limits};

use crate::cbor::{
    DecodeError, Encoded, append, canonical, datatype, end, read_array, read_map, read_str,
    read_value, to_bytes, write_value,
};
use crate::cell::{Base, Cell, Dot, Hanging, Increment, Sum};
use crate::path::Path;
use crate::row::{Cleared, Life, Row};

impl Row {
    /// The encoding of the row.
    pub fn encode(&self) -> Vec<u8> {
        to_bytes(|encoder| self.write(encoder))
    }

    /// Appends the encoding of the row.
    pub fn encode_onto(&self, bytes: &mut Vec<u8>) {
        append(bytes, |encoder| self.write(encoder));
    }

    /// Reads a row that fills `bytes`.
    ///
    /// # Errors
    /// If the bytes are not the one encoding of a row: out of order, cells that do not count,
    /// stamps at or past 2^47 ms.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new(bytes);
        let row = Self::read(&mut decoder)?;
        end(&decoder)?;
        canonical(&decoder, &row.encode())?;
        Ok(row)
    }

    pub(crate) fn write(&self, encoder: &mut Encoder<&mut Vec<u8>>) -> Encoded {
        let stamps = self.stamps();
        let place = |stamp: &Stamp| -> u64 {
            // Every stamp but ZERO is in the list, so the error is ZERO's.
            stamps.binary_search(stamp).map_or(0, |index| index as u64 + 1)
        };
        encoder.array(5)?.array(stamps.len() as u64)?;
        stamps.iter().try_for_each(|stamp| encoder.bytes(stamp.as_bytes())?.ok())?;
        encoder.u64(place(&self.version))?;
        match &self.life {
            None => encoder.null()?,
            Some(life) => encoder.array(2)?.u64(place(&life.stamp))?.bool(life.alive)?,
        };
        match &self.cleared {
            None => encoder.null()?,
            Some(cleared) => {
                encoder.array(2)?.u64(place(&cleared.stamp))?.u64(place(&cleared.replaced))?
            }
        };
        encoder.array(self.cells.len() as u64)?;
        self.cells.iter().try_for_each(|(path, cell)| write_cell(encoder, path, cell, &place))
    }

    /// Writes, and sets of what hangs on a base.
    fn parts(&self) -> usize {
        let parts =
            |cell: &Cell| usize::from(cell.base.is_some()) + usize::from(cell.hanging.is_some());
        self.cells.values().map(parts).sum()
    }

    /// Every stamp of the row but [`Stamp::ZERO`], rising.
    fn stamps(&self) -> Vec<Stamp> {
        let mut stamps = vec![self.version];
        stamps.extend(self.life.map(|life| life.stamp));
        stamps.extend(self.cleared.iter().flat_map(|cleared| [cleared.stamp, cleared.replaced]));
        for cell in self.cells.values() {
            stamps.extend(cell.base().iter().flat_map(|base| [base.stamp, base.replaced]));
            let Some(hanging) = &cell.hanging else { continue };
            stamps.push(hanging.on);
            for dot in hanging.dots.values() {
                stamps.extend(dot.added.iter().chain(&dot.removed));
            }
        }
        stamps.sort_unstable();
        stamps.dedup();
        stamps.retain(|stamp| *stamp != Stamp::ZERO);
        stamps
    }

    pub(crate) fn read(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        expect_array(decoder, 5, "a row is an array of five")?;
        let stamps = read_stamps(decoder)?;
        let version = read_place(decoder, &stamps)?;
        let life = optional(decoder, |decoder| {
            let stamp = read_written(decoder, &stamps)?;
            let alive = decoder.bool().map_err(|_| DecodeError::new(decoder, "not a bool"))?;
            Ok(Life { stamp, alive })
        })?;
        let cleared = optional(decoder, |decoder| {
            let stamp = read_written(decoder, &stamps)?;
            Ok(Cleared { stamp, replaced: read_replaced(decoder, &stamps, stamp)? })
        })?;
        let mut row = Self { version, life, cleared, cells: BTreeMap::new() };
        let count = read_array(decoder)?;
        for _ in 0..count {
            let (path, cell) = read_cell(decoder, &stamps)?;
            if row.cells.last_key_value().is_some_and(|(last, _)| *last >= path) {
                return Err(DecodeError::new(decoder, "cells out of order"));
            }
            row.cells.insert(path, cell);
        }
        let parts = row.parts();
        row.drop_older();
        if row.parts() != parts {
            return Err(DecodeError::new(decoder, "a cell that does not count"));
        }
        Ok(row)
    }
}

fn write_cell(
    encoder: &mut Encoder<&mut Vec<u8>>,
    path: &Path,
    cell: &Cell,
    place: &impl Fn(&Stamp) -> u64,
) -> Encoded {
    let written = cell.base.is_some();
    encoder.array(1 + 3 * u64::from(written) + u64::from(cell.hanging.is_some()))?;
    match path.as_column() {
        Some(column) => encoder.str(column)?.ok()?,
        None => {
            encoder.array(path.keys().len() as u64)?;
            path.keys().iter().try_for_each(|key| encoder.str(key)?.ok())?;
        }
    }
    if let Some(base) = &cell.base {
        encoder.u64(place(&base.stamp))?.u64(place(&base.replaced))?;
        match &base.value {
            Some(value) => write_value(encoder, value)?,
            None => encoder.undefined()?.ok()?,
        }
    }
    let Some(hanging) = &cell.hanging else { return Ok(()) };
    encoder.array(3)?.u64(place(&hanging.on))?.map(hanging.increments.len() as u64)?;
    for (incarnation, increment) in &hanging.increments {
        encoder.bytes(incarnation.as_bytes())?.array(2)?.u64(increment.count)?;
        write_sum(encoder, increment.sum)?;
    }
    encoder.array(hanging.dots.len() as u64)?;
    for dot in hanging.dots.values() {
        encoder.array(3)?;
        write_value(encoder, &dot.value)?;
        for stamps in [&dot.added, &dot.removed] {
            encoder.array(stamps.len() as u64)?;
            stamps.iter().try_for_each(|stamp| encoder.u64(place(stamp))?.ok())?;
        }
    }
    Ok(())
}

fn write_sum(encoder: &mut Encoder<&mut Vec<u8>>, sum: Sum) -> Encoded {
    match sum {
        Sum::Float(value) => encoder.f64(value)?.ok(),
        Sum::Int(value) => match i64::try_from(value) {
            Ok(value) => encoder.i64(value)?.ok(),
            Err(_) => encoder.bytes(&value.to_be_bytes())?.ok(),
        },
    }
}

fn expect_array(
    decoder: &mut Decoder<'_>,
    len: u64,
    what: &'static str,
) -> Result<(), DecodeError> {
    let at = decoder.position();
    if read_array(decoder)? == len { Ok(()) } else { Err(DecodeError { at, what }) }
}

/// `null`, or an array of two that `read` reads.
fn optional<T>(
    decoder: &mut Decoder<'_>,
    read: impl FnOnce(&mut Decoder<'_>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    if datatype(decoder)? == Type::Null {
        decoder.null().map_err(|_| DecodeError::new(decoder, "not null"))?;
        return Ok(None);
    }
    expect_array(decoder, 2, "not an array of two")?;
    read(decoder).map(Some)
}

fn read_stamps(decoder: &mut Decoder<'_>) -> Result<Vec<Stamp>, DecodeError> {
    let mut stamps: Vec<Stamp> = Vec::new();
    for _ in 0..read_array(decoder)? {
        let at = decoder.position();
        let stamp = decoder.bytes().ok().and_then(Stamp::from_slice);
        let last = stamps.last().copied().unwrap_or(Stamp::ZERO);
        let stamp = stamp
            .filter(|stamp| *stamp > last && stamp.millis() < Stamp::MILLIS_LIMIT)
            .ok_or(DecodeError { at, what: "stamps must rise and lie below 2^47 ms" })?;
        stamps.push(stamp);
    }
    Ok(stamps)
}

/// A place in the list of stamps; 0 is [`Stamp::ZERO`].
fn read_place(decoder: &mut Decoder<'_>, stamps: &[Stamp]) -> Result<Stamp, DecodeError> {
    let at = decoder.position();
    let place = decoder.u64().ok().and_then(|place| usize::try_from(place).ok());
    let stamp = match place {
        Some(0) => Some(Stamp::ZERO),
        Some(place) => stamps.get(place - 1).copied(),
        None => None,
    };
    stamp.ok_or(DecodeError { at, what: "no such stamp" })
}

/// The stamp of something that was written, which ZERO is not.
fn read_written(decoder: &mut Decoder<'_>, stamps: &[Stamp]) -> Result<Stamp, DecodeError> {
    let at = decoder.position();
    match read_place(decoder, stamps)? {
        Stamp::ZERO => Err(DecodeError { at, what: "written at no time" }),
        stamp => Ok(stamp),
    }
}

fn read_replaced(
    decoder: &mut Decoder<'_>,
    stamps: &[Stamp],
    by: Stamp,
) -> Result<Stamp, DecodeError> {
    let at = decoder.position();
    let replaced = read_place(decoder, stamps)?;
    if replaced < by {
        Ok(replaced)
    } else {
        Err(DecodeError { at, what: "a write replaces older ones only" })
    }
}

fn read_cell(decoder: &mut Decoder<'_>, stamps: &[Stamp]) -> Result<(Path, Cell), DecodeError> {
    let at = decoder.position();
    let fields = read_array(decoder)?;
    let path = read_path(decoder)?;
    // The row itself is the outermost of the levels that a record may nest.
    let levels = limits::JSON_DEPTH
        .checked_sub(path.keys().len())
        .ok_or(DecodeError { at, what: "nested too deep" })?;
    let base = match fields {
        2 => None,
        4 | 5 => {
            let stamp = read_written(decoder, stamps)?;
            let replaced = read_replaced(decoder, stamps, stamp)?;
            let value = match datatype(decoder)? {
                Type::Undefined => {
                    decoder.undefined().map_err(|_| DecodeError::new(decoder, "not a base"))?;
                    None
                }
                _ => Some(read_value(decoder, levels)?),
            };
            Some(Base { stamp, value, replaced })
        }
        _ => return Err(DecodeError { at, what: "a cell is an array of two, four or five" }),
    };
    let hanging = match fields {
        4 => None,
        _ => Some(Box::new(read_hanging(decoder, stamps, levels)?)),
    };
    Ok((path, Cell { base, hanging }))
}

fn read_path(decoder: &mut Decoder<'_>) -> Result<Path, DecodeError> {
    if datatype(decoder)? == Type::String {
        return Ok(Path::column(read_str(decoder)?));
    }
    let at = decoder.position();
    let count = read_array(decoder)?;
    if count > limits::JSON_DEPTH as u64 {
        return Err(DecodeError { at, what: "nested too deep" });
    }
    let mut keys = Vec::new();
    for _ in 0..count {
        keys.push(Box::from(read_str(decoder)?));
    }
    Path::new(keys).ok_or(DecodeError { at, what: "a path without keys" })
}

fn read_hanging(
    decoder: &mut Decoder<'_>,
    stamps: &[Stamp],
    levels: usize,
) -> Result<Hanging, DecodeError> {
    let at = decoder.position();
    expect_array(decoder, 3, "a base, increments and dots are an array of three")?;
    let mut hanging = Hanging::on(read_place(decoder, stamps)?);
    for _ in 0..read_map(decoder)? {
        let at = decoder.position();
        let incarnation = decoder.bytes().ok().and_then(Incarnation::from_slice);
        let last = hanging.increments.last_key_value().map(|(last, _)| *last);
        let incarnation = incarnation
            .filter(|incarnation| Some(*incarnation) > last)
            .ok_or(DecodeError { at, what: "incarnations must rise" })?;
        expect_array(decoder, 2, "an increment is an array of two")?;
        let count = decoder.u64().map_err(|_| DecodeError::new(decoder, "not a count"))?;
        hanging.increments.insert(incarnation, Increment { count, sum: read_sum(decoder)? });
    }
    let mut last: Option<Vec<u8>> = None;
    for _ in 0..read_array(decoder)? {
        let at = decoder.position();
        let dot = read_dot(decoder, stamps, levels)?;
        let key = crate::order::value_key(&dot.value);
        if last.as_ref().is_some_and(|last| *last >= key) {
            return Err(DecodeError { at, what: "dots out of order" });
        }
        last = Some(key.clone());
        hanging.dots.insert(key, dot);
    }
    if hanging.is_empty() {
        return Err(DecodeError { at, what: "neither increments nor dots" });
    }
    Ok(hanging)
}

fn read_sum(decoder: &mut Decoder<'_>) -> Result<Sum, DecodeError> {
    let at = decoder.position();
    let sum = match datatype(decoder)? {
        Type::F64 => decoder.f64().ok().filter(|value| value.is_finite()).map(Sum::Float),
        Type::Bytes => decoder
            .bytes()
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map(|bytes| Sum::Int(i128::from_be_bytes(bytes))),
        _ => decoder.i64().ok().map(|value| Sum::Int(value.into())),
    };
    sum.ok_or(DecodeError { at, what: "not a sum" })
}

fn read_dot(
    decoder: &mut Decoder<'_>,
    stamps: &[Stamp],
    levels: usize,
) -> Result<Dot, DecodeError> {
    let at = decoder.position();
    expect_array(decoder, 3, "a dot is an array of three")?;
    let levels = levels.checked_sub(1).ok_or(DecodeError { at, what: "nested too deep" })?;
    let value = read_value(decoder, levels)?;
    let added = read_set(decoder, stamps)?;
    let removed = read_set(decoder, stamps)?;
    if added.is_empty() && removed.is_empty() || !added.is_disjoint(&removed) {
        return Err(DecodeError { at, what: "a dot that says nothing, or two things" });
    }
    Ok(Dot { value, added, removed })
}

fn read_set(decoder: &mut Decoder<'_>, stamps: &[Stamp]) -> Result<BTreeSet<Stamp>, DecodeError> {
    let mut set = BTreeSet::new();
    for _ in 0..read_array(decoder)? {
        let at = decoder.position();
        let stamp = read_written(decoder, stamps)?;
        if set.last().is_some_and(|last| *last >= stamp) {
            return Err(DecodeError { at, what: "stamps out of order" });
        }
        set.insert(stamp);
    }
    Ok(set)
}
