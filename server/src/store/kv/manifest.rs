//! Manifests: the newest of each replica, kept for ever, its head apart so that listing all is
//! cheap.

use tidings_kv::{Reader, Scan, Txn};
use tidings_proof::Replica;
use tidings_wire::sync::{ChainHead, ManifestMark};
use tidings_wire::{AccountId, DeviceId};

use super::keys::{self, Prefix};
use super::records::{AccountRecord, AppRecord, ManifestRecord, Row as _, damaged};
use super::{account, open, table, usage};
use crate::store::{NewManifest, PushLimits, Refusal};

/// Rows in one read of heads.
const PAGE: usize = 1_000;

/// Most bytes of manifests in one answer. A replica's manifest has at most 256 KiB; what does not
/// fit follows in the next answer, since the caller then names these as known.
pub(crate) const ANSWER_BYTES: usize = 8 << 20;

/// Bytes that manifests may go over the quota: a full account still says that it is alive.
const SLACK: u64 = 1 << 20;

/// The newest manifests below a key: of an app, or of a device in it.
pub(crate) fn heads(
    reader: &(impl Reader + ?Sized),
    below: &[u8],
) -> Result<Vec<(Replica, ManifestMark)>, Refusal> {
    let mut heads = Vec::new();
    let mut scan = Scan::prefix(below, PAGE);
    loop {
        let rows = reader.range(table::MANIFEST_HEADS, &scan)?;
        let full = scan.is_full(rows.len(), 0);
        let last = rows.last().map(|(key, _)| key.clone());
        for (key, value) in rows {
            let replica = keys::replica_of(&key)
                .ok_or_else(|| damaged(ManifestRecord::WHAT, "the key holds no replica"))?;
            heads.push((replica, ManifestRecord::decode(&value)?.mark));
        }
        match last {
            Some(last) if full => scan = scan.after(&last),
            _ => return Ok(heads),
        }
    }
}

/// The newest manifest of a replica.
pub(crate) fn head(
    reader: &(impl Reader + ?Sized),
    prefix: Prefix,
    replica: Replica,
) -> Result<Option<ManifestMark>, Refusal> {
    Ok(record(reader, prefix, replica)?.map(|record| record.mark))
}

fn record(
    reader: &(impl Reader + ?Sized),
    prefix: Prefix,
    replica: Replica,
) -> Result<Option<ManifestRecord>, Refusal> {
    let bytes = reader.get(table::MANIFEST_HEADS, &prefix.replica(replica))?;
    bytes.map(|bytes| ManifestRecord::decode(&bytes)).transpose()
}

/// Writes the newest manifest of a replica and counts it; account and app are to be written
/// afterwards.
pub(crate) fn put(
    txn: &mut Txn<'_>,
    account: &mut AccountRecord,
    app: &mut AppRecord,
    (prefix, manifest): (Prefix, &NewManifest),
    limits: PushLimits,
) -> Result<(), Refusal> {
    let held = record(txn, prefix, manifest.replica)?;
    if held.is_none() {
        app.replicas = app.replicas.saturating_add(1);
        if u64::from(app.replicas) > limits.replicas {
            return Err(Refusal::Quota("replicas"));
        }
    }
    let before = held.map_or(0, |held| u64::from(held.size));
    let size = manifest.bytes.len() as u64;
    let row = &mut account.row;
    row.bytes = row.bytes.saturating_sub(before).saturating_add(size);
    let most = limits.bytes.map(|most| most.saturating_add(SLACK));
    if size > before && most.is_some_and(|most| row.bytes > most) {
        return Err(Refusal::Quota("bytes"));
    }
    let key = prefix.replica(manifest.replica);
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let record = ManifestRecord { mark: manifest.mark, size };
    txn.put(table::MANIFEST_HEADS, key.clone(), record.encode())?;
    Ok(txn.put(table::MANIFESTS, key, manifest.bytes.clone())?)
}

/// The newest manifests of a device in all apps.
pub(crate) fn of_device(
    reader: &impl Reader,
    account: AccountId,
    device: DeviceId,
) -> Result<Vec<Vec<u8>>, Refusal> {
    account::record(reader, account)?;
    let mut manifests = Vec::new();
    for (_, app) in usage::app_rows(reader, account)? {
        let prefix = account::prefix(account, &app);
        for (replica, _) in heads(reader, &prefix.device(device))? {
            manifests.extend(reader.get(table::MANIFESTS, &prefix.replica(replica))?);
        }
    }
    Ok(manifests)
}

/// Puts back those manifests that are newer than the held ones, whatever heads they name.
pub(crate) fn put_back(
    txn: &mut Txn<'_>,
    account: AccountId,
    chain: ChainHead,
    manifests: &[NewManifest],
    limits: PushLimits,
) -> Result<usize, Refusal> {
    let mut record = account::record(txn, account)?;
    // One whose author was revoked since may be beyond its cut, and would stand here for ever.
    if record.row.head != chain {
        return Err(Refusal::ChainMoved(record.row.head));
    }
    let mut taken = 0;
    for manifest in manifests {
        let mut app = account::app_or_new(txn, account, &mut record, &manifest.app, limits.apps)?;
        let prefix = account::prefix(account, &app);
        let held = head(txn, prefix, manifest.replica)?;
        if held.is_some_and(|held| held.n >= manifest.mark.n) {
            continue;
        }
        put(txn, &mut record, &mut app, (prefix, manifest), limits)?;
        app.version = open::next_number(txn)?;
        account::put_app(txn, account, &manifest.app, &app)?;
        account::put(txn, account, &record)?;
        taken += 1;
    }
    Ok(taken)
}
