//! Lanes: who wrote which table, and how far.

use tidings_wire::{AppId, DeviceId, Hash, Incarnation, Seq, TableTag};

use crate::encoding::{DecodeError, Reader, Writer};

/// One replica of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    /// The device.
    pub device: DeviceId,
    /// Its replica.
    pub incarnation: Incarnation,
}

impl Replica {
    /// Length of the encoding, in bytes.
    pub const LEN: usize = DeviceId::LEN + Incarnation::LEN;

    /// Appends the encoding: device, incarnation.
    pub fn write(&self, writer: &mut Writer) {
        writer.raw(&self.device.0).raw(&self.incarnation.0);
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is short.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { device: reader.device()?, incarnation: reader.incarnation()? })
    }
}

/// A sequence of blobs without holes: one table, written by one replica.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The app.
    pub app: AppId,
    /// Who writes it.
    pub replica: Replica,
    /// The table.
    pub tag: TableTag,
}

/// Last blob of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneHead {
    /// Its number.
    pub seq: Seq,
    /// Its hash.
    pub hash: Hash,
}

impl LaneHead {
    /// Before the first blob.
    pub const EMPTY: Self = Self { seq: Seq(0), hash: Hash::ZERO };
}

/// One blob of an app, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneSeq {
    /// Who wrote it.
    pub replica: Replica,
    /// The table.
    pub tag: TableTag,
    /// Its number in the lane.
    pub seq: Seq,
}
