//! Anchoring the lanes of devices that were unlinked: manifest of the cut, then the headers that
//! lead from it back to what is known here (docs/protocol.md, "Device chain").

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidings_client::remote::{ClientError, Lane, SyncClient};
use tidings_engine::{LaneKey, LaneState};
use tidings_proof::{LaneHead, Replica, SignedHeader, SignedManifest};
use tidings_wire::sync::ManifestMark;
use tidings_wire::{AppId, Hash, Seq, TableTag};

use super::{Shared, rebuild, records};
use crate::store::{CommitError, StoreError};
use crate::vault::{Anchor, Anchored, Unlocked, VaultError};

/// Why the lanes of a replica could not be anchored.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnchorError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Commit(#[from] CommitError<StoreError>),
    /// The server does not give what the cut names.
    #[error("the server does not show what the unlinked computer wrote last")]
    Withheld,
}

/// Anchors what can be anchored now, and rebuilds tables that hold more than counts. True if
/// something changed: the engine then has to begin anew from what is stored.
pub(super) async fn anchor(shared: &Arc<Shared>, client: &SyncClient) -> bool {
    let Some(unlocked) = shared.vault.unlocked() else { return false };
    let mut changed = false;
    for (app, replica, cut) in unlocked.unanchored() {
        match anchor_replica(shared, client, &unlocked, &app, replica, cut).await {
            Ok(()) => changed = true,
            Err(error) => {
                tracing::warn!(%app, device = %replica.device, %error, "lanes are not anchored");
            }
        }
    }
    match drop_uncut(shared, &unlocked).await {
        Ok(dropped) => changed | dropped,
        Err(error) => {
            tracing::warn!(%error, "tables could not be rebuilt");
            changed
        }
    }
}

async fn anchor_replica(
    shared: &Arc<Shared>,
    client: &SyncClient,
    unlocked: &Unlocked,
    app: &AppId,
    replica: Replica,
    cut: ManifestMark,
) -> Result<(), AnchorError> {
    let (lanes, diverged) = read(shared, client, unlocked, app, replica, cut).await?;
    if !diverged.is_empty() {
        rebuild::rebuild(shared, unlocked, app, &diverged).await?;
    }
    Ok(shared.vault.anchor(app.clone(), replica, lanes).await?)
}

/// Rebuilds tables that hold anything of a replica without a cut: nothing of it counts.
async fn drop_uncut(shared: &Shared, unlocked: &Unlocked) -> Result<bool, AnchorError> {
    let revoked = |replica: Replica| {
        unlocked.chain.devices().get(&replica.device).is_some_and(|device| !device.is_active())
    };
    if unlocked.chain.devices().values().all(tidings_proof::Device::is_active) {
        return Ok(false);
    }
    let account = unlocked.record.account;
    let lanes = shared.replica.read(|source| {
        let mut all = Vec::new();
        for app in records::apps(source)? {
            let lanes = records::lanes(source, &app)?;
            all.push((app, lanes));
        }
        Ok::<_, StoreError>(all)
    });
    let mut dropped = false;
    for (app, lanes) in lanes.await? {
        let uncut = |replica: Replica| {
            revoked(replica) && unlocked.chain.author(account, &app, replica).is_err()
        };
        let held = lanes.iter().filter(|(lane, state)| state.seq.0 > 0 && uncut(lane.replica));
        let tags: BTreeSet<TableTag> = held.map(|(lane, _)| lane.tag).collect();
        if !tags.is_empty() {
            rebuild::rebuild(shared, unlocked, &app, &tags).await?;
            dropped = true;
        }
    }
    Ok(dropped)
}

/// The anchored lanes of a replica, and those of which more or something else was applied here.
async fn read(
    shared: &Shared,
    client: &SyncClient,
    unlocked: &Unlocked,
    app: &AppId,
    replica: Replica,
    cut: ManifestMark,
) -> Result<(Anchored, BTreeSet<TableTag>), AnchorError> {
    let manifests = client.manifests(replica.device).await?.manifests;
    let named = manifests.iter().find_map(|bytes| {
        let signed = SignedManifest::decode(bytes).ok()?;
        let manifest = &signed.manifest;
        let fits = manifest.app == *app && manifest.replica == replica && manifest.n == cut.n;
        let verified = fits.then(|| signed.verify(&unlocked.chain).ok()).flatten()?;
        (verified.mark() == cut).then(|| verified.manifest().clone())
    });
    let heads = named.ok_or(AnchorError::Withheld)?.lanes;
    let name = app.clone();
    let known: BTreeMap<LaneKey, LaneState> =
        shared.replica.read(move |source| records::lanes(source, &name)).await?;
    let mut lanes = Anchored::new();
    let mut diverged = BTreeSet::new();
    let known = known.into_iter().filter(|(lane, _)| lane.replica == replica);
    let known: BTreeMap<TableTag, LaneState> =
        known.map(|(lane, state)| (lane.tag, state)).collect();
    for (tag, state) in &known {
        if state.seq.0 > 0 && !heads.contains_key(tag) {
            diverged.insert(*tag);
        }
    }
    for (tag, head) in heads {
        let lane = LaneOf { client, unlocked, app, replica, tag, head };
        let anchor = match lane.read(known.get(&tag)).await? {
            Some(anchor) => anchor,
            None => {
                diverged.insert(tag);
                lane.read(None).await?.ok_or(AnchorError::Withheld)?
            }
        };
        lanes.insert(tag, anchor);
    }
    // Tables that are rebuilt are pulled from their beginning.
    for tag in &diverged {
        if let Some(anchor) = lanes.get_mut(tag)
            && anchor.from != Seq(1)
            && let Some(last) = anchor.hashes.last().copied()
        {
            let seq = anchor.from.0.saturating_add(anchor.hashes.len() as u64).saturating_sub(1);
            let head = LaneHead { seq: Seq(seq), hash: last };
            let lane = LaneOf { client, unlocked, app, replica, tag: *tag, head };
            *anchor = lane.read(None).await?.ok_or(AnchorError::Withheld)?;
        }
    }
    Ok((lanes, diverged))
}

/// A lane and the head that its author's last manifest names.
struct LaneOf<'a> {
    client: &'a SyncClient,
    unlocked: &'a Unlocked,
    app: &'a AppId,
    replica: Replica,
    tag: TableTag,
    head: LaneHead,
}

impl LaneOf<'_> {
    /// Reads the lane's headers up to its head: each names the one before, so that the head proves
    /// all. None if what is known of the lane here is not what they say.
    async fn read(&self, known: Option<&LaneState>) -> Result<Option<Anchor>, AnchorError> {
        let Self { client, unlocked, app, replica, tag, head } = *self;
        let (seq, at) = known.map_or((Seq(0), Some(Hash::ZERO)), |state| (state.seq, state.hash));
        if seq > head.seq {
            return Ok(None);
        }
        let from = Seq(seq.0.saturating_add(1));
        let gap = known.and_then(|state| state.gaps.first().copied());
        let from = gap.map_or(from, |gap| gap.min(from));
        if seq == head.seq && from > head.seq {
            let same = at.is_none_or(|at| at == head.hash);
            return Ok(same.then(|| Anchor { from, hashes: Vec::new() }));
        }
        let mut hashes: Vec<Hash> = Vec::new();
        let mut next = from;
        let mut before: Option<Hash> = None;
        let mut agrees = true;
        while next <= head.seq {
            let (device, incarnation) = (replica.device, replica.incarnation);
            let lane = Lane { device, incarnation, table: tag, from: next };
            let page = client.headers(app, &lane).await?;
            let count = hashes.len();
            for bytes in &page.headers {
                if next > head.seq {
                    break;
                }
                let verified = SignedHeader::decode(bytes)
                    .ok()
                    .and_then(|header| header.verify(&unlocked.chain).ok())
                    .ok_or(AnchorError::Withheld)?;
                let (header, hash) = (verified.header(), verified.hash());
                let fits = header.lane.app == *app
                    && header.lane.replica == replica
                    && header.lane.tag == tag
                    && header.seq == next
                    && before.is_none_or(|before| before == header.prev);
                if !fits {
                    return Err(AnchorError::Withheld);
                }
                // What is known here has to lie on the way.
                let above = seq.0.checked_add(1) == Some(next.0);
                agrees &= !above || at.is_none_or(|at| at == header.prev);
                agrees &= next != seq || at.is_none_or(|at| at == hash);
                before = Some(hash);
                hashes.push(hash);
                next = Seq(next.0.saturating_add(1));
            }
            if hashes.len() == count {
                return Err(AnchorError::Withheld);
            }
        }
        match hashes.last() {
            Some(last) if *last != head.hash => Err(AnchorError::Withheld),
            _ => Ok(agrees.then_some(Anchor { from, hashes })),
        }
    }
}
