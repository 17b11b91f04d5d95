//! Restoring the engine from what is stored.

use std::collections::{BTreeMap, BTreeSet};

use tidings_engine::{AppStart, EngineStart, ManifestFact};
use tidings_proof::SignedManifest;
use tidings_wire::{AppId, Incarnation};

use super::page::{chain_verdict, staged_fact};
use super::records;
use crate::replica::Replica;
use crate::store::{Reader, StoreError};
use crate::vault::Unlocked;

/// Reads everything that the engine starts from.
///
/// # Errors
/// The store cannot be read.
pub(super) fn read(source: &impl Reader, unlocked: &Unlocked) -> Result<EngineStart, StoreError> {
    let incarnation = Replica::identity(source)?.incarnation;
    let mut names: BTreeSet<AppId> = records::apps(source)?;
    let stored = Replica::apps(source)?;
    names.extend(stored.iter().map(|(app, _)| app.clone()));
    let apps = names.into_iter().map(|app| {
        let pending = stored.iter().any(|(name, record)| *name == app && record.pending > 0);
        read_app(source, unlocked, app, incarnation, pending)
    });
    Ok(EngineStart {
        own: unlocked.replica(incarnation),
        apps: apps.collect::<Result<_, StoreError>>()?,
    })
}

fn read_app(
    source: &impl Reader,
    unlocked: &Unlocked,
    app: AppId,
    incarnation: Incarnation,
    pending: bool,
) -> Result<AppStart, StoreError> {
    let own = records::own(source, &app, incarnation)?;
    let quarantine = records::quarantine(source, &app)?;
    let mut unplaced = BTreeMap::new();
    let explains = quarantine.iter().filter(|(_, entry)| entry.place.is_none() && !entry.explained);
    for (at, _) in explains {
        let count = unplaced.entry(at.position).or_insert(0_u32);
        *count = count.saturating_add(1);
    }
    let staged = records::staged_blobs(source, &app)?;
    let manifests = records::manifests(source, &app)?;
    let manifests = manifests.values().filter_map(|bytes| {
        let signed = SignedManifest::decode(bytes).ok()?;
        let verified = signed.verify(&unlocked.chain).ok()?;
        let verdict = chain_verdict(unlocked, verified.manifest().chain);
        Some(ManifestFact::new(&verified, verdict))
    });
    Ok(AppStart {
        record: records::record(source, &app)?,
        lanes: records::lanes(source, &app)?,
        staged: staged.iter().filter_map(|blob| staged_fact(unlocked, &app, blob)).collect(),
        unplaced,
        manifests: manifests.collect(),
        floors: records::floors(source, &app)?,
        own_n: own.n,
        own_acked: own.acked,
        frozen: records::frozen(source, &app)?.is_some(),
        outbox: pending,
        app,
    })
}
