//! The recovery kit: a paper key that stands in the chain like a device, and the way back with it
//! once every computer is lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use secrecy::ExposeSecret as _;
use tidings_client::remote::SyncClient;
use tidings_crypto::{DeviceKeys, Keyring, PaperKey, entries, random};
use tidings_proof::{Chain, DeviceKind, Relation, SignedEntry};
use tidings_wire::linking::{DeviceRole, Recover, RecoverAnswer, RecoveryKit};
use tidings_wire::{Code, DeviceId};

use super::Shared;
use super::account::{
    LinkError, Prepared, SetupRequest, answer, append, devices, may_join, name_device,
    open_keyring, post, prepare, read_whole_chain,
};
use super::devices::{linked, signed_in, unlink};
use super::pairing::{check_server, finish};
use super::remote::client_of;
use super::tasks::obtain_token;
use crate::vault::{AccountRecord, Secrets, Unlocked, VaultError};

/// Makes a recovery kit in place of the one before.
pub(super) async fn make_kit(shared: &Arc<Shared>) -> Result<RecoveryKit, LinkError> {
    let Ok(_one) = shared.changing.try_lock() else { return Err(LinkError::Busy) };
    let (client, _) = signed_in(shared).await?;
    let kit = replace_kit(shared, &client).await?;
    shared.chain_changed.notify_one();
    Ok(kit)
}

/// Adds a new paper key, then unlinks every one that was there before, which starts a new epoch.
async fn replace_kit(shared: &Arc<Shared>, client: &SyncClient) -> Result<RecoveryKit, LinkError> {
    let before: BTreeSet<DeviceId> = papers(&linked(shared)?.chain).collect();
    let paper = PaperKey::generate(&mut random::system());
    let keys = paper.device_keys();
    append(&shared.vault, client, |unlocked| {
        let Unlocked { keys: own, chain, keyring, .. } = unlocked;
        let signature = keys.co_sign(chain.account(), chain.next_index());
        let rng = &mut random::system();
        entries::add_device(own, chain, keyring, keys.public(), signature, rng)
            .map_err(VaultError::Build)
    })
    .await?;
    if !before.is_empty() {
        unlink(shared, client, &before).await?;
    }
    let unlocked = linked(shared)?;
    Ok(RecoveryKit {
        account: unlocked.record.account,
        url: unlocked.record.url.clone(),
        entries: unlocked.chain.next_index().0,
        words: paper.words().expose_secret().to_owned(),
    })
}

/// The paper keys that count.
fn papers(chain: &Chain) -> impl Iterator<Item = DeviceId> {
    let paper = chain.active().filter(|(_, device)| device.public.kind == DeviceKind::Paper);
    paper.map(|(id, _)| id)
}

impl Unlocked {
    /// Whether a recovery kit was made that still works.
    pub(super) fn has_kit(&self) -> bool {
        papers(&self.chain).next().is_some()
    }
}

/// Comes back into an account with the words of its kit, which is replaced by a new one.
pub(super) async fn recover(
    shared: &Arc<Shared>,
    asked: Recover,
) -> Result<RecoverAnswer, LinkError> {
    let paper = PaperKey::parse(&asked.words)?;
    let Ok(_one) = shared.changing.try_lock() else { return Err(LinkError::Busy) };
    if may_join(shared).await?.is_some_and(|former| former != asked.account) {
        return Err(LinkError::OtherAccount);
    }
    let Recover { url, account, entries, setup, .. } = asked;
    let request = SetupRequest { url, invite: None, setup };
    let prepared = prepare(shared, &request).await?;
    let client = client_of(&request.url, prepared.authority.clone(), shared.settings.timeouts)?;
    let (chain, entries_read) = read_whole_chain(&client, account).await?;
    let older = entries.is_some_and(|entries| chain.next_index().0 < entries);
    let joined = join(shared, &client, &request.url, prepared, &paper, chain, entries_read).await;
    let record = match joined {
        Ok(record) => record,
        Err(error) => after_all(shared, &client, error).await?,
    };
    if let Err(error) = name_device(&shared.vault, &client, record.device, &record.name).await {
        tracing::warn!(%error, "this computer's name could not be told to the account");
    }
    // The words were typed, perhaps in front of somebody: they work once. Without new ones this
    // computer is back all the same.
    let replaced = async {
        let (client, _) = signed_in(shared).await?;
        replace_kit(shared, &client).await
    };
    let (kit, kit_missing) = match replaced.await {
        Ok(kit) => (Some(kit), None),
        Err(error) => (None, Some(error.to_string())),
    };
    shared.founded.notify_one();
    let others = devices(shared)?.into_iter();
    let others = others
        .filter(|device| device.active && !device.this && device.kind == DeviceRole::Computer);
    let (account, others) = (answer(&record), others.collect());
    Ok(RecoverAnswer { account, kit, kit_missing, others, older })
}

/// The entry may stand in the chain and the news of it be lost: then the chain says so. Otherwise
/// what was kept for joining goes again.
async fn after_all(
    shared: &Arc<Shared>,
    client: &SyncClient,
    error: LinkError,
) -> Result<AccountRecord, LinkError> {
    let joining = shared.vault.account().await?.filter(|record| record.joining);
    if let Some(record) = joining
        && finish(shared, client, record.clone(), None).await.is_ok()
    {
        return Ok(AccountRecord { joining: false, ..record });
    }
    shared.vault.forget_joining().await?;
    Err(error)
}

/// Adds this computer to the account, signed by the paper key.
async fn join(
    shared: &Arc<Shared>,
    client: &SyncClient,
    url: &str,
    setup: Prepared,
    paper: &PaperKey,
    mut chain: Chain,
    mut entries: Vec<SignedEntry>,
) -> Result<AccountRecord, LinkError> {
    const ROUNDS: usize = 5;
    let paper = Arc::new(paper.device_keys());
    let account = chain.account();
    // The chain was folded from the genesis on, whose hash is the account's id, and the paper key
    // itself signed that it joins: no server can lead it into an account of its own.
    let standing = chain.devices().get(&paper.id()).map(tidings_proof::Device::is_active);
    match standing {
        Some(true) => {}
        Some(false) => return Err(LinkError::KitUsed),
        None => return Err(LinkError::KitUnknown),
    }
    let opened = client.open_mailbox().await?;
    check_server(opened.server_id, &opened.token_key)?;
    let rng = &mut random::system();
    let fresh = Arc::new(DeviceKeys::generate(rng));
    let record = AccountRecord {
        account,
        device: fresh.id(),
        server: opened.server_id,
        url: url.to_owned(),
        authority: setup.authority.map(Into::into),
        keystore: setup.keystore,
        name: setup.name,
        joining: true,
    };
    for _ in 0..ROUNDS {
        let keyring = paper_keyring(shared, client, &record, &paper, &chain).await?;
        let signature = fresh.co_sign(account, chain.next_index());
        let new = entries::add_device(&paper, &chain, &keyring, fresh.public(), signature, rng)
            .map_err(VaultError::Build)?;
        let secrets = Secrets { keys: Arc::clone(&fresh), keyring };
        shared.vault.found(record.clone(), secrets, entries.clone()).await?;
        match post(&shared.vault, client, new).await {
            Ok(()) => {
                finish(shared, client, record.clone(), None).await?;
                return Ok(AccountRecord { joining: false, ..record });
            }
            Err(LinkError::Server(error)) if error.code() == Some(Code::ChainMoved) => {
                let before = chain.head();
                (chain, entries) = read_whole_chain(client, account).await?;
                if !matches!(chain.relation(before), Relation::Same | Relation::Earlier) {
                    return Err(LinkError::Malformed("it shows another list of computers"));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(LinkError::Malformed("its device chain does not stand still"))
}

/// What the paper key can open of the account's secrets.
async fn paper_keyring(
    shared: &Arc<Shared>,
    client: &SyncClient,
    record: &AccountRecord,
    paper: &Arc<DeviceKeys>,
    chain: &Chain,
) -> Result<Keyring, LinkError> {
    let unlocked = Unlocked {
        record: AccountRecord { device: paper.id(), ..record.clone() },
        keys: Arc::clone(paper),
        keyring: Keyring::new(record.account),
        chain: chain.clone(),
        anchors: Arc::default(),
    };
    let (client, _) = obtain_token(shared, &unlocked, client).await?;
    let answer = client.keyring().await?;
    let keyring = open_keyring(&unlocked, &answer);
    match keyring.contains(chain.newest_epoch()) {
        true => Ok(keyring),
        false => Err(LinkError::Malformed("it keeps back the account's keys")),
    }
}
