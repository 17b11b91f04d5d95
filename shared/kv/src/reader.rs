//! Reading, the same from the store as it is, from a view of one moment, and from inside a write.

use std::{fmt, sync::Arc};

use crate::{
    Row, Scan, StoreError, View,
    error::Damage,
    records::{self, Records},
};

/// Something that values can be read from. Every call blocks.
pub trait Reader {
    /// The value of a key.
    ///
    /// # Errors
    /// The table is unknown, the record is damaged, or the engine could not read.
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// One page of rows in key order; [`Scan`] says where it ends and how to go on.
    ///
    /// # Errors
    /// The table is unknown, a record of the page is damaged, or the engine could not read.
    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError>;
}

impl<R: Reader + ?Sized> Reader for &R {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        (**self).get(table, key)
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        (**self).range(table, scan)
    }
}

/// A store at one moment: commits made after it was taken do not show in it. While it lives, the
/// engine keeps what later commits replaced, so it should not live long.
pub struct Snapshot {
    view: Box<dyn View>,
    records: Arc<Records>,
}

impl Snapshot {
    pub(crate) fn take(records: &Arc<Records>) -> Result<Option<Self>, StoreError> {
        let view = records::guarded(|| records.engine.view())?;
        Ok(view.map(|view| Self { view, records: Arc::clone(records) }))
    }

    /// One page of rows, with damaged records in their places instead of an error.
    ///
    /// # Errors
    /// The table is unknown or the engine could not read.
    pub fn survey(&self, table: &str, scan: &Scan) -> Result<Vec<Found>, StoreError> {
        let table = self.records.table(table)?;
        records::guarded(|| records::survey(self.view.as_ref(), table, scan))
    }
}

/// A key with its value, or with what is wrong with it.
pub type Found = (Vec<u8>, Result<Vec<u8>, Damage>);

impl Reader for Snapshot {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let table = self.records.table(table)?;
        records::guarded(|| records::value(self.view.as_ref(), table, key))
    }

    fn range(&self, table: &str, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let table = self.records.table(table)?;
        records::guarded(|| records::page(self.view.as_ref(), table, scan))
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}
