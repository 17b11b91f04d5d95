//! Reading several rows as of one moment, on engines that have such a thing and on one that has
//! not: there the versions of account and app are compared before and after.

use tidings_kv::{Found, Reader, Scan, Snapshot, Store as Kv, StoreError, Txn};
use tidings_wire::sync::ChainHead;
use tidings_wire::{AccountId, AppId};

use super::{KvStore, account};
use crate::store::Refusal;

/// Something that a page can be read from, with damaged rows in their places.
pub(crate) trait Source: Reader {
    /// As [`Reader::range`], a damaged record being one of the rows.
    fn survey(&self, table: &str, scan: &Scan) -> Result<Vec<Found>, StoreError>;
}

impl Source for Kv {
    fn survey(&self, table: &str, scan: &Scan) -> Result<Vec<Found>, StoreError> {
        Self::survey(self, table, scan)
    }
}

impl Source for Snapshot {
    fn survey(&self, table: &str, scan: &Scan) -> Result<Vec<Found>, StoreError> {
        Self::survey(self, table, scan)
    }
}

impl Source for Txn<'_> {
    fn survey(&self, table: &str, scan: &Scan) -> Result<Vec<Found>, StoreError> {
        let rows = self.range(table, scan)?;
        Ok(rows.into_iter().map(|(key, value)| (key, Ok(value))).collect())
    }
}

/// Reads that may find a write in between before the committer itself reads.
const TRIES: usize = 8;

impl KvStore {
    /// Runs a read of one app so that everything in it is of one moment.
    pub(super) async fn consistently<T: Send + 'static>(
        &self,
        account: AccountId,
        app: AppId,
        read: impl Fn(&dyn Source) -> Result<T, Refusal> + Clone + Send + 'static,
    ) -> Result<T, Refusal> {
        let (beside, name) = (read.clone(), app.clone());
        let tried = self.read(move |kv| {
            if let Some(snapshot) = kv.view()? {
                return beside(&snapshot).map(Some);
            }
            for _ in 0..TRIES {
                let before = version(kv, account, &name)?;
                let result = beside(kv);
                if version(kv, account, &name)? == before {
                    return result.map(Some);
                }
            }
            Ok(None)
        });
        match tried.await? {
            Some(result) => Ok(result),
            None => self.write(move |txn| read(txn)).await,
        }
    }
}

/// What changes with everything that a page shows.
#[derive(PartialEq)]
struct Version {
    chain: ChainHead,
    suspended: bool,
    app: Option<u64>,
}

fn version(reader: &impl Reader, account: AccountId, app: &AppId) -> Result<Version, Refusal> {
    let row = account::row(reader, account)?;
    let app = account::app(reader, account, app)?.map(|app| app.version);
    Ok(Version { chain: row.head, suspended: row.suspended, app })
}
