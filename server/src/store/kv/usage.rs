//! What an account keeps and how far its devices have pulled.

use std::sync::PoisonError;

use tidings_kv::{CommitError, Durability, Reader, Row as KvRow, Scan};
use tidings_wire::sync::{AppHead, DevicePull, TableUsage};
use tidings_wire::{AccountId, AppId};

use super::keys::{self, Prefix};
use super::records::{self, AppRecord, PullRecord, Row as _, UsageRecord, damaged};
use super::{KvStore, account, manifest, table};
use crate::clock::Millis;
use crate::store::{Refusal, Usage};

/// Rows in one read.
const PAGE: usize = 1_000;

/// A replica that stands where it stood is noted again after this, in milliseconds: "seen within
/// 30 days" needs no more.
const NOTE_AGAIN: u64 = 60 * 60 * 1_000;

/// Most replicas remembered as noted; then all are noted anew.
const NOTED: usize = 100_000;

/// Every row below a key.
pub(crate) fn all(
    reader: &(impl Reader + ?Sized),
    table: &str,
    below: &[u8],
) -> Result<Vec<KvRow>, Refusal> {
    let mut all = Vec::new();
    let mut scan = Scan::prefix(below, PAGE);
    loop {
        let rows = reader.range(table, &scan)?;
        let full = scan.is_full(rows.len(), 0);
        let last = rows.last().map(|(key, _)| key.clone());
        all.extend(rows);
        match last {
            Some(last) if full => scan = scan.after(&last),
            _ => return Ok(all),
        }
    }
}

/// The apps of an account.
pub(crate) fn app_rows(
    reader: &(impl Reader + ?Sized),
    account: AccountId,
) -> Result<Vec<(AppId, AppRecord)>, Refusal> {
    let rows = all(reader, table::APPS, &account.0)?;
    rows.iter().map(|(key, value)| Ok((records::app_of(key)?, AppRecord::decode(value)?))).collect()
}

/// The apps with their heads.
pub(crate) fn apps(reader: &impl Reader, account: AccountId) -> Result<Vec<AppHead>, Refusal> {
    account::record(reader, account)?;
    let apps = app_rows(reader, account)?;
    Ok(apps.into_iter().map(|(app_id, app)| AppHead { app_id, head: app.head }).collect())
}

/// What an account keeps.
pub(crate) fn of(reader: &impl Reader, account: AccountId) -> Result<Usage, Refusal> {
    let record = account::record(reader, account)?;
    let (mut tables, mut pulls) = (Vec::new(), Vec::new());
    for (app_id, app) in app_rows(reader, account)? {
        let prefix = Prefix::new(account, app.number);
        for (key, value) in all(reader, table::USAGE, prefix.as_bytes())? {
            let tag = keys::tag_of(&key).ok_or_else(|| damaged("usage", "bad key"))?;
            let UsageRecord { blobs, bytes } = UsageRecord::decode(&value)?;
            tables.push(TableUsage { app_id: app_id.clone(), tag, blobs, bytes });
        }
        for (key, value) in all(reader, table::PULLS, prefix.as_bytes())? {
            let replica = keys::replica_of(&key).ok_or_else(|| damaged("pull", "bad key"))?;
            let PullRecord { position, at } = PullRecord::decode(&value)?;
            pulls.push(DevicePull {
                app_id: app_id.clone(),
                device_id: replica.device,
                incarnation: replica.incarnation,
                position,
                at_ms: at.0,
            });
        }
    }
    Ok(Usage { account: record.row, tables, pulls })
}

impl KvStore {
    /// Notes a pull where it says something new. Relaxed: a lost note costs a little thrift.
    pub(super) fn note(&self, account: AccountId, pull: DevicePull) {
        let replica =
            tidings_proof::Replica { device: pull.device_id, incarnation: pull.incarnation };
        let key = (account, pull.app_id.clone(), replica);
        {
            let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            let known = noted.get(&key).is_some_and(|last| {
                last.position == pull.position && pull.at_ms < last.at_ms.saturating_add(NOTE_AGAIN)
            });
            if known {
                return;
            }
            if noted.len() >= NOTED {
                noted.clear();
            }
            noted.insert(key, pull.clone());
        }
        let job = move |txn: &mut tidings_kv::Txn<'_>| -> Result<(), Refusal> {
            let Some(app) = account::app(txn, account, &pull.app_id)? else { return Ok(()) };
            let prefix = account::prefix(account, &app);
            // Only those that have said that they exist: rows must not grow by asking.
            if manifest::head(txn, prefix, replica)?.is_none() {
                return Ok(());
            }
            let record = PullRecord { position: pull.position, at: Millis(pull.at_ms) };
            let key = prefix.replica(replica);
            Ok(txn.put(table::PULLS, key, record.encode())?)
        };
        self.kv.submit(Durability::Relaxed, job, |result: Result<(), CommitError<Refusal>>| {
            if let Err(error) = result {
                tracing::debug!(%error, "a pull was not noted");
            }
        });
    }
}
