//! Trying again to open what lies in quarantine, after the chain or the keys have grown.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidings_engine::{LaneKey, LaneState, Retried};
use tidings_proof::Replica as ReplicaId;
use tidings_wire::{AppId, Position, Seq};

use super::page::deltas;
use super::records::{self, QuarantineKey};
use crate::replica::{RemotePush, Replica};
use crate::store::{CommitError, Durability, Reader, StoreError, Txn};
use crate::vault::{OpenedBlob, Unlocked};

/// What lies in an app's quarantine, as status tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// How many entries.
    pub(super) count: u64,
    /// Where the first of them stand on the server.
    pub(super) at: Vec<Position>,
}

/// Most positions that status names.
const NAMED: usize = 16;

/// What lies in an app's quarantine.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn held(replica: &Replica, app: &AppId) -> Result<Held, StoreError> {
    let app = app.clone();
    let read = move |source: &_| {
        let count = records::quarantine_total(source, &app)?.entries;
        Ok(Held { count, at: records::quarantine_positions(source, &app, NAMED)? })
    };
    replica.read(read).await
}

/// Opens what can be opened now.
///
/// What had no place in a lane keeps its share in explaining a hole, so that a blob is applied and
/// taken out of quarantine only where its lane knows its number as missing.
///
/// # Errors
/// The store; what was opened until then stays so.
pub(super) async fn retry(
    replica: &Replica,
    unlocked: Arc<Unlocked>,
    app: &AppId,
) -> Result<Retried, CommitError<StoreError>> {
    let name = app.clone();
    let entries = replica.read(move |source| records::quarantine(source, &name)).await?;
    let name = app.clone();
    let open = move || {
        let opened = entries.into_iter().filter_map(|(at, entry)| {
            let bytes = entry.bytes?;
            Some((at, unlocked.open(&name, &bytes).ok()?))
        });
        opened.collect::<Vec<_>>()
    };
    let opens = tokio::task::spawn_blocking(open).await;
    let opens = opens.map_err(|error| CommitError::Panicked(error.to_string()))?;
    let mut opened = Vec::new();
    for (at, blob) in opens {
        opened.extend(apply(replica, app, at, blob).await?);
    }
    let name = app.clone();
    let lacking = replica.read(move |source| lacking(source, &name)).await?;
    Ok(Retried { opened, lacking })
}

/// Lanes with a gap of which no bytes are kept: too much lay in quarantine already, or what came
/// was not even signed by its author.
fn lacking(source: &impl Reader, app: &AppId) -> Result<BTreeSet<LaneKey>, StoreError> {
    let entries = records::quarantine(source, app)?;
    let kept = entries.into_values().filter(|entry| entry.bytes.is_some());
    let kept: BTreeSet<(LaneKey, Seq)> = kept
        .filter_map(|entry| {
            let (device, incarnation, tag, seq) = entry.place?;
            Some((LaneKey { replica: ReplicaId { device, incarnation }, tag }, seq))
        })
        .collect();
    let lanes = records::lanes(source, app)?.into_iter();
    let lacks = |lane, state: LaneState| state.gaps.iter().any(|seq| !kept.contains(&(lane, *seq)));
    Ok(lanes.filter_map(|(lane, state)| lacks(lane, state).then_some(lane)).collect())
}

/// Applies a blob that opens now; none if its lane does not lack it.
async fn apply(
    replica: &Replica,
    app: &AppId,
    at: QuarantineKey,
    opened: OpenedBlob,
) -> Result<Option<(LaneKey, Seq)>, CommitError<StoreError>> {
    let header = &opened.header;
    let lane = LaneKey { replica: header.lane.replica, tag: header.lane.tag };
    let seq = header.seq;
    if !is_missing(replica, app, lane, seq).await? {
        return Ok(None);
    }
    let push = RemotePush { deltas: deltas(opened.body).collect(), bulk: false };
    let name = app.clone();
    let also = move |txn: &mut Txn<'_>| {
        let mut lanes = records::lanes(txn, &name)?;
        if let Some(state) = lanes.get_mut(&lane) {
            state.gaps.remove(&seq);
            records::put_lane(txn, &name, &lane, state)?;
        }
        records::delete_quarantine(txn, &name, at)
    };
    replica.apply(app, vec![push], Durability::Synced, also).await?;
    Ok(Some((lane, seq)))
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
