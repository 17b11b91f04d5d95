//! Device chains and key rings.

use std::collections::BTreeSet;

use tidings_kv::{Reader, Scan, Txn};
use tidings_proof::entry::Cut;
use tidings_wire::{AccountId, DeviceId, Epoch};

use super::keys::{self, Prefix};
use super::{account, manifest, table, usage};
use crate::store::{ChainAppend, ChainPage, EpochRow, Refusal};

/// Bytes of entries in one page of a chain.
const PAGE_BYTES: usize = 4 << 20;

/// Entries from an index on.
pub(crate) fn page(
    reader: &impl Reader,
    account: AccountId,
    from: u64,
    limit: usize,
) -> Result<ChainPage, Refusal> {
    // The head first: entries behind it are never changed, only added to.
    let head = account::record(reader, account)?.row.head;
    let (lo, hi) = (keys::chain(account, from), keys::chain(account, u64::MAX));
    let scan = Scan::between(&lo, &hi, limit).bytes(PAGE_BYTES);
    let rows = reader.range(table::CHAIN, &scan)?;
    let within = |key: &[u8]| {
        key.last_chunk().is_some_and(|index| u64::from_be_bytes(*index) <= head.index.0)
    };
    let entries = rows.into_iter().filter(|(key, _)| within(key)).map(|(_, entry)| entry).collect();
    Ok(ChainPage { entries, head })
}

/// Appends an entry that was verified against the head it follows.
pub(crate) fn append(txn: &mut Txn<'_>, append: &ChainAppend) -> Result<(), Refusal> {
    let mut record = account::record(txn, append.account)?;
    if record.row.head == append.after {
        return Ok(());
    }
    if record.row.head != append.before {
        return Err(Refusal::ChainMoved(record.row.head));
    }
    record.chain_bytes += size(&append.entry, &append.wraps, append.earlier.as_deref());
    let full = append.after.index.0 >= append.most || record.chain_bytes > append.most_bytes;
    // A device that was stolen could fill the chain, so that nobody could unlink it any more.
    // Unlinking goes on; each entry of it takes one of at most 256 active devices away.
    if full && append.revoked.is_empty() {
        return Err(Refusal::ChainFull);
    }
    if !append.revoked.is_empty() && held_cuts(txn, append)? != append.cuts {
        return Err(Refusal::CutMoved);
    }
    let key = keys::chain(append.account, append.after.index.0);
    txn.put(table::CHAIN, key, append.entry.clone())?;
    put_wraps(txn, append.account, append.epoch, &append.wraps)?;
    if let Some(earlier) = &append.earlier {
        let key = keys::earlier(append.account, append.epoch);
        txn.put(table::KEYRING, key, earlier.clone())?;
    }
    record.row.head = append.after;
    record.row.epoch = append.epoch;
    account::put(txn, append.account, &record)
}

/// Bytes of an entry with what comes along. They do not count against the quota: unlinking a device
/// must never fail because an account is full.
pub(crate) fn size(entry: &[u8], wraps: &[(DeviceId, Vec<u8>)], earlier: Option<&[u8]>) -> u64 {
    let wraps: usize = wraps.iter().map(|(_, wrap)| wrap.len()).sum();
    (entry.len() + wraps + earlier.map_or(0, <[u8]>::len)) as u64
}

/// The newest manifests held of the devices that an entry revokes.
fn held_cuts(txn: &Txn<'_>, append: &ChainAppend) -> Result<BTreeSet<Cut>, Refusal> {
    let mut cuts = BTreeSet::new();
    for (app, record) in usage::app_rows(txn, append.account)? {
        let prefix = Prefix::new(append.account, record.number);
        for device in &append.revoked {
            for (replica, mark) in manifest::heads(txn, &prefix.device(*device))? {
                let (n, hash) = (mark.n, mark.hash);
                cuts.insert(Cut { app: app.clone(), replica, n, hash });
            }
        }
    }
    Ok(cuts)
}

/// Writes the wraps of an epoch.
pub(crate) fn put_wraps(
    txn: &mut Txn<'_>,
    account: AccountId,
    epoch: Epoch,
    wraps: &[(DeviceId, Vec<u8>)],
) -> Result<(), Refusal> {
    for (device, wrap) in wraps {
        txn.put(table::KEYRING, keys::wrap(account, epoch, *device), wrap.clone())?;
    }
    Ok(())
}

/// Every epoch with the wrap to a device. Reads point by point: a ring of many epochs and devices
/// holds far more wraps than one device needs.
pub(crate) fn keyring(
    reader: &impl Reader,
    account: AccountId,
    device: DeviceId,
) -> Result<Vec<EpochRow>, Refusal> {
    let newest = account::record(reader, account)?.row.epoch;
    let mut epochs = Vec::new();
    for number in 0..=newest.0 {
        let epoch = Epoch(number);
        let wrap = reader.get(table::KEYRING, &keys::wrap(account, epoch, device))?;
        let earlier = reader.get(table::KEYRING, &keys::earlier(account, epoch))?;
        epochs.push(EpochRow { epoch, wrap, earlier });
    }
    Ok(epochs)
}
