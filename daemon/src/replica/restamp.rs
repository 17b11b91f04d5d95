//! Stamping unsent writes anew, before they are frozen: those that a fast clock pushed far ahead,
//! so that they do not win over everybody's later ones, and those that waited so long that what
//! others know of deleted rows may be gone by now.
//!
//! Only what nobody else has seen changes: stamps above every received and every frozen one keep
//! their order and move as a whole. Replica and outbox change in one transaction, and each row's
//! new version is one `update` in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidings_tables::{Clock as Stamps, RowId, TableName};
use tidings_wire::local::{LogPosition, Origin};
use tidings_wire::{AppId, Stamp};

use super::changes::{Changes, Stored};
use super::meta::{self, AppRecord, ReplicaRecord};
use super::outbox::{self, OutboxTx};
use super::{Replica, RowDelta};
use crate::store::{CommitError, Durability, Reader, StoreError, Txn};

/// How far ahead of the time a stamp may be when it is frozen, in milliseconds.
const AHEAD: u64 = 5 * 60 * 1_000;
/// How old an unsent write may be when it is frozen, in milliseconds.
const OLD: u64 = 80 * 24 * 60 * 60 * 1_000;
/// Bytes of the outbox read at a time.
const PAGE: usize = 4 << 20;
/// Rows of one table above which their new versions are logged as one change.
const BULK: usize = 1_000;

/// Whether the newest stamp is so far ahead of the time that unsent writes have to be stamped
/// anew before anything is frozen.
pub fn is_ahead(record: &ReplicaRecord, physical: i64) -> bool {
    record.last_stamp.millis() > millis(physical).saturating_add(AHEAD)
        && record.last_stamp > record.shown()
}

impl Replica {
    /// Stamps unsent writes anew where they are too far ahead or too old; true if any were.
    /// `frozen` tells up to where an app's outbox is frozen.
    ///
    /// # Errors
    /// Nothing changed then.
    pub async fn restamp(
        &self,
        frozen: impl Fn(&Txn<'_>, &AppId) -> Result<LogPosition, StoreError> + Send + 'static,
    ) -> Result<bool, CommitError<StoreError>> {
        let shared = Arc::clone(&self.shared);
        let job = move |txn: &mut Txn<'_>| {
            let (now, physical) = (shared.clock.now(), shared.clock.physical());
            restamp(txn, &frozen, now, physical)
        };
        let shared = Arc::clone(&self.shared);
        let after = move |changed: &Vec<(AppId, AppRecord)>| {
            for (app, record) in changed {
                shared.publish(app, record);
            }
        };
        let changed = self.shared.store.write_then(Durability::Synced, job, after).await?;
        Ok(!changed.is_empty())
    }
}

/// The job. Gives the apps that changed.
fn restamp(
    txn: &mut Txn<'_>,
    frozen: &impl Fn(&Txn<'_>, &AppId) -> Result<LogPosition, StoreError>,
    now: i64,
    physical: i64,
) -> Result<Vec<(AppId, AppRecord)>, StoreError> {
    let mut replica = Replica::identity(txn)?;
    let apps = meta::apps(txn)?;
    let mut unsent = Vec::new();
    let ahead = is_ahead(&replica, physical);
    for (app, _) in &apps {
        let after = frozen(txn, app)?;
        if ahead || oldest(txn, app, after)?.is_some_and(|oldest| is_old(oldest, physical)) {
            unsent.push((app.clone(), walk(txn, app, after)?));
        }
    }
    let shown = replica.shown();
    let stamps: BTreeSet<Stamp> = unsent
        .iter()
        .flat_map(|(_, transactions)| transactions)
        .flat_map(|transaction| &transaction.deltas)
        .map(|delta| delta.delta.version())
        .filter(|stamp| *stamp > shown)
        .collect();
    let (renamed, last) = rename(&replica, &stamps, physical);
    if renamed.is_empty() {
        return Ok(Vec::new());
    }
    replica.last_stamp = last;
    meta::put_replica(txn, &replica)?;
    let mut changed = Vec::new();
    for (app, transactions) in unsent {
        if let Some(record) = move_app(txn, &app, transactions, &renamed, now)? {
            changed.push((app, record));
        }
    }
    Ok(changed)
}

/// Which stamps move where, in their order; and the last stamp afterwards.
fn rename(
    replica: &ReplicaRecord,
    stamps: &BTreeSet<Stamp>,
    physical: i64,
) -> (BTreeMap<Stamp, Stamp>, Stamp) {
    let limit = millis(physical).saturating_add(AHEAD);
    let first_old = stamps.iter().find(|stamp| is_old(**stamp, physical));
    // Old ones move up, and with them everything later; otherwise those ahead move down.
    let (from, floor) = match first_old {
        Some(first) => (*first, replica.last_stamp.min(last_below(stamps, limit, replica))),
        None => {
            let Some(first) = stamps.iter().find(|stamp| stamp.millis() > limit) else {
                return (BTreeMap::new(), replica.last_stamp);
            };
            (*first, last_below(stamps, limit, replica))
        }
    };
    let mut clock = Stamps::new(replica.incarnation, floor);
    let mut renamed = BTreeMap::new();
    for old in stamps.range(from..) {
        // At the end of time nothing can move; what is there stays as it is.
        let Ok(new) = clock.next(physical) else { return (BTreeMap::new(), replica.last_stamp) };
        if first_old.is_none() && new >= *old {
            return (BTreeMap::new(), replica.last_stamp);
        }
        renamed.insert(*old, new);
    }
    (renamed, clock.last())
}

/// The greatest stamp that keeps its name: shown to others, or unsent and not ahead.
fn last_below(stamps: &BTreeSet<Stamp>, limit: u64, replica: &ReplicaRecord) -> Stamp {
    let kept = stamps.iter().rev().find(|stamp| stamp.millis() <= limit).copied();
    kept.unwrap_or(Stamp::ZERO).max(replica.shown())
}

/// Moves the stamps of one app, in its outbox and its rows.
fn move_app(
    txn: &mut Txn<'_>,
    app: &AppId,
    transactions: Vec<OutboxTx>,
    renamed: &BTreeMap<Stamp, Stamp>,
    now: i64,
) -> Result<Option<AppRecord>, StoreError> {
    let Some(mut record) = meta::app(txn, app)? else { return Ok(None) };
    let mut rows: BTreeMap<(TableName, RowId), Vec<RowDelta>> = BTreeMap::new();
    for mut transaction in transactions {
        let mut moved = false;
        for delta in &mut transaction.deltas {
            if renamed.contains_key(&delta.delta.version()) {
                delta.delta.restamp(renamed);
                moved = true;
            }
            let row = (delta.table.clone(), delta.row.clone());
            rows.entry(row).or_default().push(delta.clone());
        }
        if moved {
            outbox::put(txn, app, &transaction)?;
        }
    }
    let mut changes = Changes::default();
    for ((table, id), deltas) in rows {
        let state = &mut changes.row(txn, app, &table, &id)?.row.state;
        state.restamp(renamed);
        // One that had lost to a stamp ahead may win now.
        for RowDelta { delta, .. } in &deltas {
            state.join(delta);
        }
    }
    let origin = Origin { client: "tidings".to_owned(), mutation_id: None };
    changes.store(txn, app, &mut record, Stored { at: now, origin, bulk_over: BULK })?;
    record.reserve();
    meta::put_app(txn, app, &record)?;
    Ok(Some(record))
}

/// Every unsent transaction of an app.
fn walk(
    source: &impl Reader,
    app: &AppId,
    mut after: LogPosition,
) -> Result<Vec<OutboxTx>, StoreError> {
    let mut all: Vec<OutboxTx> = Vec::new();
    loop {
        let page = outbox::after(source, app, after, PAGE)?;
        let Some(last) = page.last() else { return Ok(all) };
        after = last.position;
        all.extend(page);
    }
}

/// The stamp of an app's first unsent write.
fn oldest(
    source: &impl Reader,
    app: &AppId,
    after: LogPosition,
) -> Result<Option<Stamp>, StoreError> {
    let first = outbox::after(source, app, after, 1)?;
    let stamps = first.iter().flat_map(|tx| &tx.deltas).map(|delta| delta.delta.version());
    Ok(stamps.min())
}

fn is_old(stamp: Stamp, physical: i64) -> bool {
    stamp.millis().saturating_add(OLD) < millis(physical)
}

fn millis(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidings_wire::Incarnation;

    const OWN: Incarnation = Incarnation([1; 8]);
    const DAY: u64 = 86_400_000;
    const NOW: u64 = 1_790_000_000_000;

    fn record(last: u64, shown: Option<u64>) -> ReplicaRecord {
        ReplicaRecord {
            incarnation: OWN,
            last_stamp: Stamp::new(last, 0, OWN),
            shown: shown.map(|millis| Stamp::new(millis, 0, OWN)),
        }
    }

    fn stamps(millis: &[u64]) -> BTreeSet<Stamp> {
        millis.iter().map(|millis| Stamp::new(*millis, 0, OWN)).collect()
    }

    fn renamed(last: u64, shown: Option<u64>, unsent: &[u64]) -> (Vec<u64>, u64) {
        let record = record(last, shown);
        let (renamed, last) = rename(&record, &stamps(unsent), i64::try_from(NOW).unwrap());
        assert!(renamed.values().is_sorted(), "in their order");
        (renamed.values().map(Stamp::millis).collect(), last.millis())
    }

    #[test]
    fn stamps_a_year_ahead_come_back() {
        let ahead = NOW + 365 * DAY;
        assert!(is_ahead(&record(ahead, None), NOW as i64));
        let (moved, last) = renamed(ahead + 1, Some(NOW - 5), &[NOW - 3, ahead, ahead + 1]);
        assert_eq!(moved, [NOW, NOW]);
        assert_eq!(last, NOW);
    }

    #[test]
    fn five_minutes_are_borne_and_no_more() {
        assert!(!is_ahead(&record(NOW + AHEAD, None), NOW as i64));
        assert!(is_ahead(&record(NOW + AHEAD + 1, None), NOW as i64));
        assert_eq!(renamed(NOW + AHEAD, None, &[NOW + AHEAD]).0, [] as [u64; 0]);
        assert_eq!(renamed(NOW + AHEAD + 1, None, &[NOW + AHEAD + 1]).0, [NOW]);
    }

    #[test]
    fn they_stay_above_what_others_know() {
        let ahead = NOW + 365 * DAY;
        // Received from another device that is ahead by less.
        let (moved, _) = renamed(ahead, Some(NOW + 30 * DAY), &[ahead]);
        assert_eq!(moved, [NOW + 30 * DAY]);
        // Nothing is gained: what was shown is as far ahead.
        assert!(!is_ahead(&record(ahead, Some(ahead)), NOW as i64));
    }

    #[test]
    fn what_waited_for_80_days_moves_up_with_all_that_is_later() {
        let (moved, last) = renamed(NOW - DAY, Some(NOW - 90 * DAY), &[NOW - 81 * DAY, NOW - DAY]);
        assert_eq!(moved, [NOW, NOW]);
        assert_eq!(last, NOW);
        assert_eq!(renamed(NOW, None, &[NOW - 79 * DAY]).0, [] as [u64; 0]);
    }

    #[test]
    fn clocks_before_1970_do_not_panic() {
        let record = record(NOW, None);
        assert!(is_ahead(&record, -5));
        let (renamed, _) = rename(&record, &stamps(&[NOW]), i64::MIN);
        assert_eq!(renamed.len(), 1);
    }
}
