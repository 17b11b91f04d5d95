//! Changes of who belongs to the account, from here: unlinking devices and naming them.
//!
//! Unlinking needs a verified chain and nothing else: an alarm must not let a server forbid it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidings_client::remote::SyncClient;
use tidings_crypto::{entries, random};
use tidings_proof::{Cut, SignedManifest};
use tidings_wire::linking::DeviceInfo;
use tidings_wire::{Code, DeviceId};
use tokio::time::Instant;

use super::Shared;
use super::account::{
    LinkError, check_name, device_info, devices, name_device, post, read_chain, read_keyring,
};
use super::remote::client;
use super::tasks::obtain_token;
use crate::vault::{Intent, Unlocked, VaultError};

/// How long a device may go on writing before its unlinking gives up: the server refuses what it
/// writes for 30 s from the first try on.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// Unlinks devices by their names or ids, all in one entry.
pub(super) async fn revoke(
    shared: &Arc<Shared>,
    wanted: &[String],
) -> Result<Vec<DeviceInfo>, LinkError> {
    let Ok(_one) = shared.changing.try_lock() else { return Err(LinkError::Busy) };
    let (client, _) = signed_in(shared).await?;
    read_chain(&shared.vault, &client).await?;
    let own = linked(shared)?.record.device;
    let mut chosen = BTreeSet::new();
    for wanted in wanted {
        let device = find(shared, wanted)?;
        if device.id == own {
            return Err(LinkError::OwnDevice);
        }
        chosen.insert(device.id);
    }
    if chosen.is_empty() {
        return Err(LinkError::NoSuchDevice(String::new()));
    }
    let intent = Intent::Revoke { devices: chosen.iter().copied().collect() };
    shared.vault.intend(Some(intent)).await?;
    let done = unlink(shared, &client, &chosen).await;
    // Only a daemon that was cut off in the middle goes on with it by itself.
    shared.vault.intend(None).await?;
    done?;
    let unlocked = linked(shared)?;
    Ok(chosen.into_iter().filter_map(|device| device_info(&unlocked, device)).collect())
}

/// Goes on with what a stop of the daemon cut off.
pub(super) async fn resume(shared: Arc<Shared>) {
    match go_on(&shared).await {
        Ok(()) => {}
        Err(error) => tracing::warn!(%error, "unlinking was cut off and could not be ended yet"),
    }
}

async fn go_on(shared: &Arc<Shared>) -> Result<(), LinkError> {
    // A start with nothing to go on with must not be in the way of who links a computer now.
    if !matches!(shared.vault.intent().await?, Some(Intent::Revoke { .. })) {
        return Ok(());
    }
    // Whoever is at it at this moment needs no help.
    let _one = shared.changing.lock().await;
    let Some(Intent::Revoke { devices }) = shared.vault.intent().await? else { return Ok(()) };
    tracing::info!("unlinking was cut off; it goes on");
    let mut wait = PAUSE;
    let done = loop {
        let attempt = async {
            let (client, _) = signed_in(shared).await?;
            unlink(shared, &client, &devices.iter().copied().collect()).await
        };
        match attempt.await {
            Err(LinkError::Server(error)) if error.kind() == tidings_client::ErrorKind::Retry => {
                tracing::debug!(%error, "the server cannot be asked to unlink a device yet");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(PATIENCE);
            }
            done => break done,
        }
    };
    shared.vault.intend(None).await?;
    done
}

/// Appends the entry over fresh cuts, again as often as chain or cuts moved meanwhile.
pub(super) async fn unlink(
    shared: &Arc<Shared>,
    client: &SyncClient,
    chosen: &BTreeSet<DeviceId>,
) -> Result<(), LinkError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        read_chain(&shared.vault, client).await?;
        let unlocked = linked(shared)?;
        let active = chosen.iter().copied().filter(|device| unlocked.chain.is_active(*device));
        let left: BTreeSet<DeviceId> = active.collect();
        if left.is_empty() {
            shared.chain_changed.notify_one();
            return Ok(());
        }
        let cuts = cuts(client, &unlocked, &left).await?;
        let Unlocked { keys, chain, keyring, .. } = unlocked.as_ref();
        let rng = &mut random::system();
        let new = entries::revoke_devices(keys, chain, keyring, left, cuts, rng)
            .map_err(VaultError::Build)?;
        match post(&shared.vault, client, new).await {
            Err(LinkError::Server(error))
                if matches!(error.code(), Some(Code::ChainMoved | Code::CutMoved)) =>
            {
                if Instant::now() >= deadline {
                    return Err(LinkError::StillWriting);
                }
                tracing::debug!(%error, "unlinking is tried again");
                tokio::time::sleep(PAUSE).await;
            }
            done => done?,
        }
    }
}

/// The last manifests of devices that the server holds, each with the device's own signature: what
/// they wrote counts up to there.
async fn cuts(
    client: &SyncClient,
    unlocked: &Unlocked,
    devices: &BTreeSet<DeviceId>,
) -> Result<BTreeSet<Cut>, LinkError> {
    let mut cuts = BTreeSet::new();
    for device in devices {
        for bytes in client.manifests(*device).await?.manifests {
            let verified = SignedManifest::decode(&bytes)
                .ok()
                .filter(|signed| signed.manifest.replica.device == *device)
                .and_then(|signed| signed.verify(&unlocked.chain).ok())
                .ok_or(LinkError::Malformed("what a computer last said is not signed by it"))?;
            let (manifest, mark) = (verified.manifest(), verified.mark());
            let (app, replica) = (manifest.app.clone(), manifest.replica);
            cuts.insert(Cut { app, replica, n: mark.n, hash: mark.hash });
        }
    }
    Ok(cuts)
}

/// Gives a device another name.
pub(super) async fn rename(
    shared: &Arc<Shared>,
    wanted: &str,
    name: &str,
) -> Result<DeviceInfo, LinkError> {
    check_name(name)?;
    let Ok(_one) = shared.changing.try_lock() else { return Err(LinkError::Busy) };
    let (client, unlocked) = signed_in(shared).await?;
    read_chain(&shared.vault, &client).await?;
    let device = find(shared, wanted)?.id;
    name_device(&shared.vault, &client, device, name).await?;
    if device == unlocked.record.device {
        let record =
            crate::vault::AccountRecord { name: name.to_owned(), ..unlocked.record.clone() };
        shared.vault.joined(record).await?;
    }
    shared.chain_changed.notify_one();
    let unlocked = linked(shared)?;
    device_info(&unlocked, device).ok_or(LinkError::Missing)
}

/// The active device with this name or id.
fn find(shared: &Shared, wanted: &str) -> Result<DeviceInfo, LinkError> {
    let all = devices(shared)?;
    let active = || all.iter().filter(|device| device.active);
    if let Some(device) = active().find(|device| device.id.to_string() == wanted) {
        return Ok(device.clone());
    }
    let mut named = active().filter(|device| device.name.as_deref() == Some(wanted));
    match (named.next(), named.next()) {
        (Some(device), None) => Ok(device.clone()),
        (None, _) => Err(LinkError::NoSuchDevice(wanted.to_owned())),
        (Some(_), Some(_)) => Err(LinkError::Ambiguous(wanted.to_owned())),
    }
}

/// The account that this computer is linked to.
pub(super) fn linked(shared: &Shared) -> Result<Arc<Unlocked>, LinkError> {
    let unlocked = shared.vault.unlocked().ok_or(LinkError::Missing)?;
    if unlocked.record.joining { Err(LinkError::Missing) } else { Ok(unlocked) }
}

/// A client of the account's server with a token, and every key that the server gives.
pub(super) async fn signed_in(
    shared: &Arc<Shared>,
) -> Result<(SyncClient, Arc<Unlocked>), LinkError> {
    let unlocked = linked(shared)?;
    let client = client(&unlocked.record, shared.settings.timeouts)?;
    let (client, _) = obtain_token(shared, &unlocked, &client).await?;
    read_chain(&shared.vault, &client).await?;
    read_keyring(&shared.vault, &client).await?;
    Ok((client, linked(shared)?))
}
