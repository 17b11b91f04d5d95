//! Trying again to open what lies in quarantine, after the chain or the keys have grown.

use tidings_engine::{LaneKey, LaneState};
use tidings_wire::{AppId, Seq};

use super::page::deltas;
use super::records::{self, QuarantineKey, Quarantined};
use crate::replica::{RemotePush, Replica};
use crate::store::{CommitError, Durability, StoreError};
use crate::vault::{OpenedBlob, Unlocked};

/// How much lies in quarantine of each app.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn count(replica: &Replica, app: &AppId) -> Result<u64, StoreError> {
    let app = app.clone();
    replica.read(move |source| Ok(records::quarantine_total(source, &app)?.entries)).await
}

/// Opens what can be opened now; true if anything could.
///
/// What had no place in a lane keeps its share in explaining a hole, so that a blob is applied and
/// taken out of quarantine only where its lane knows its number as missing.
///
/// # Errors
/// The store.
pub(super) async fn retry(
    replica: &Replica,
    unlocked: &Unlocked,
    app: &AppId,
) -> Result<bool, CommitError<StoreError>> {
    let name = app.clone();
    let entries = replica.read(move |source| records::quarantine(source, &name)).await?;
    let mut any = false;
    for (at, entry) in entries {
        if let Some(opened) = open(unlocked, app, &entry) {
            any |= apply(replica, app, at, opened).await?;
        }
    }
    Ok(any)
}

fn open(unlocked: &Unlocked, app: &AppId, entry: &Quarantined) -> Option<OpenedBlob> {
    unlocked.open(app, entry.bytes.as_ref()?).ok()
}

async fn apply(
    replica: &Replica,
    app: &AppId,
    at: QuarantineKey,
    opened: OpenedBlob,
) -> Result<bool, CommitError<StoreError>> {
    let header = &opened.header;
    let lane = LaneKey { replica: header.lane.replica, tag: header.lane.tag };
    let seq = header.seq;
    if !is_missing(replica, app, lane, seq).await? {
        return Ok(false);
    }
    let push = RemotePush { deltas: deltas(opened.body).collect(), bulk: false };
    let name = app.clone();
    let also = move |txn: &mut crate::store::Txn<'_>| {
        let mut lanes = records::lanes(txn, &name)?;
        if let Some(state) = lanes.get_mut(&lane) {
            state.gaps.remove(&seq);
            records::put_lane(txn, &name, &lane, state)?;
        }
        records::delete_quarantine(txn, &name, at)
    };
    replica.apply(app, vec![push], Durability::Synced, also).await?;
    Ok(true)
}

async fn is_missing(
    replica: &Replica,
    app: &AppId,
    lane: LaneKey,
    seq: Seq,
) -> Result<bool, StoreError> {
    let app = app.clone();
    replica
        .read(move |source| {
            let lanes = records::lanes(source, &app)?;
            Ok(lanes.get(&lane).is_some_and(|state: &LaneState| state.gaps.contains(&seq)))
        })
        .await
}
