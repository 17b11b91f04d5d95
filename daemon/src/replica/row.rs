//! A row as it lies in the store, and the record that apps see of it.

use tidings_tables::record::{is_soft_deleted, record};
use tidings_tables::{Object, Row, RowId};
use tidings_wire::Stamp;
use tidings_wire::local::{LogPosition, Version};

use crate::store::{StoreError, damaged};

/// A row and where it stands in the log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoredRow {
    /// The last change of it that apps could see.
    pub changed: LogPosition,
    /// The last commit in which a pull or an own write named it, changed or not.
    pub named: LogPosition,
    /// Its state.
    pub state: Row,
}

/// Version of the encoding: this byte, `changed` and `named` in 8 bytes each, the state.
const FORMAT: u8 = 1;
/// Room for most rows, in bytes.
const USUAL: usize = 512;

impl StoredRow {
    /// The encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(USUAL);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&self.changed.0.to_be_bytes());
        bytes.extend_from_slice(&self.named.0.to_be_bytes());
        self.state.encode_onto(&mut bytes);
        bytes
    }

    /// Writes the row's places in the log into an encoding of it.
    pub fn place(&self, bytes: &mut [u8]) {
        let places = [self.changed.0.to_be_bytes(), self.named.0.to_be_bytes()].concat();
        if let Some(room) = bytes.get_mut(1..).and_then(|rest| rest.get_mut(..places.len())) {
            room.copy_from_slice(&places);
        }
    }

    /// Reads what [`StoredRow::encode`] wrote; `table` and `key` are for the error.
    pub fn decode(bytes: &[u8], table: &str, key: &[u8]) -> Result<Self, StoreError> {
        let parts = bytes
            .split_first()
            .filter(|(format, _)| **format == FORMAT)
            .and_then(|(_, rest)| rest.split_first_chunk::<8>())
            .and_then(|(changed, rest)| Some((changed, rest.split_first_chunk::<8>()?)));
        let Some((changed, (named, state))) = parts else {
            return Err(damaged(table, key, "not a row"));
        };
        Ok(Self {
            changed: LogPosition(u64::from_be_bytes(*changed)),
            named: LogPosition(u64::from_be_bytes(*named)),
            state: Row::decode(state).map_err(|error| damaged(table, key, error))?,
        })
    }

    /// What apps see of it, if they see it at all.
    pub fn image(&self) -> Option<Image> {
        let columns = self.state.columns()?;
        Some(Image { version: self.state.version(), changed: self.changed, columns })
    }
}

/// A row as it was shown at some moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// The newest operation in it.
    pub version: Stamp,
    /// The change that brought it about.
    pub changed: LogPosition,
    /// Its columns.
    pub columns: Object,
}

impl Image {
    /// Whether the app marked it as deleted.
    pub fn is_soft_deleted(&self) -> bool {
        is_soft_deleted(&self.columns)
    }

    /// Its version as apps see it.
    pub fn ver(&self) -> Version {
        Version { id: self.version, position: self.changed }
    }

    /// The record: `id`, the columns, `_ver`.
    pub fn into_record(self, id: &RowId) -> Object {
        record(id, self.columns, self.version, self.changed.0)
    }
}
