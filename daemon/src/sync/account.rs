//! The account's flows that need no second computer: creating it, reading its chain and key ring,
//! listing its devices.

use std::sync::Arc;

use tidings_client::remote::{ClientError, ConfigError, SyncClient};
use tidings_crypto::pairing::{CodeError, PairingError};
use tidings_crypto::{DeviceKeys, Keyring, PaperKeyError, entries, random};
use tidings_engine::RenewCause;
use tidings_proof::{Chain, ChainError, DeviceKind, Relation, SealedEarlier, SignedEntry, Wrap};
use tidings_wire::account::{
    AppendChainRequest, ChainQuery, CreateAccountRequest, KeyringResponse,
};
use tidings_wire::linking::{AccountAnswer, DeviceInfo, DeviceRole, Setup};
use tidings_wire::{AccountId, Code, limits};

use super::remote::client_of;
use super::tasks::{decode64, encode64};
use super::{Shared, records, renew};
use crate::store::{Durability, StoreError};
use crate::vault::{
    AccountRecord, KeystoreError, KeystoreKind, Secrets, Unlocked, Vault, VaultError,
};

/// What a person asks for when this computer joins an account, or makes one.
#[derive(Debug, Clone)]
pub struct SetupRequest {
    /// The server's URL.
    pub url: String,
    /// The invite code, for a new account.
    pub invite: Option<String>,
    /// The rest.
    pub setup: Setup,
}

/// Why an account could not be made, or a computer not linked.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is an account already.
    #[error("this computer is linked to an account already")]
    Present,
    /// It was unlinked from one account and cannot join another with the rows of that.
    #[error("the rows on this computer belong to another account")]
    OtherAccount,
    /// There is none.
    #[error("this computer is not linked to an account")]
    Missing,
    /// Another computer is being linked, or this one.
    #[error("a computer is being linked already; wait until that is done")]
    Busy,
    /// The server's address or authority cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server refused or could not be reached.
    #[error(transparent)]
    Server(#[from] ClientError),
    /// The server's answer cannot be what a sound server sends.
    #[error("the server's answer cannot be right: {0}")]
    Malformed(&'static str),
    /// The keystore.
    #[error(transparent)]
    Keystore(#[from] KeystoreError),
    /// Keys, chain or store.
    #[error(transparent)]
    Vault(VaultError),
    /// The typed code is not one.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// The pairing failed.
    #[error(transparent)]
    Pairing(#[from] PairingError),
    /// The code's time is over, or nobody answered.
    #[error("the code has expired or was used already")]
    Expired,
    /// The other computer gave up.
    #[error("the other computer gave up")]
    Stopped,
    /// The words are no paper key.
    #[error(transparent)]
    Words(#[from] PaperKeyError),
    /// The words are a paper key that was replaced.
    #[error("this recovery kit was used or replaced before")]
    KitUsed,
    /// The words are a paper key of another account.
    #[error("these words do not belong to this account")]
    KitUnknown,
    /// No active device has this name or id.
    #[error("no linked computer is called {0:?}")]
    NoSuchDevice(String),
    /// More than one has this name.
    #[error("more than one linked computer is called {0:?}")]
    Ambiguous(String),
    /// A device cannot unlink itself: it would choose the key that it must not know.
    #[error("a computer cannot unlink itself")]
    OwnDevice,
    /// The device went on writing faster than it could be unlinked.
    #[error("the computer to be unlinked keeps writing")]
    StillWriting,
    /// The name cannot be one.
    #[error("a computer's name has 1 to {} bytes and no control characters", entries::NAME)]
    BadName,
}

impl From<VaultError> for LinkError {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Keystore(error) => Self::Keystore(error),
            error => Self::Vault(error),
        }
    }
}

impl From<StoreError> for LinkError {
    fn from(error: StoreError) -> Self {
        Self::Vault(VaultError::Store(error))
    }
}

/// Why chain or key ring could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("the server's answer cannot be right: {0}")]
    Malformed(&'static str),
}

impl From<ReadError> for LinkError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Client(error) => Self::Server(error),
            ReadError::Vault(error) => error.into(),
            ReadError::Malformed(what) => Self::Malformed(what),
        }
    }
}

/// Makes an account: genesis, first wrap, invite; then names the first device.
pub(super) async fn create(
    shared: &Arc<Shared>,
    request: SetupRequest,
) -> Result<AccountAnswer, LinkError> {
    let Ok(_one) = shared.changing.try_lock() else { return Err(LinkError::Busy) };
    if shared.vault.account().await?.is_some() {
        return Err(LinkError::Present);
    }
    let setup = prepare(shared, &request).await?;
    let client = client_of(&request.url, setup.authority.clone(), shared.settings.timeouts)?;
    let rng = &mut random::system();
    let keys = Arc::new(DeviceKeys::generate(rng));
    let genesis = entries::genesis(&keys, rng).map_err(VaultError::Build)?;
    let mut keyring = Keyring::new(genesis.chain.account());
    if let Some((epoch, secret)) = genesis.secret {
        keyring.insert(&genesis.chain, epoch, secret).map_err(VaultError::Keyring)?;
    }
    let secrets = Secrets { keys: Arc::clone(&keys), keyring };
    // The secret lies here before the server holds anything that it opens.
    shared.vault.keystore().save(setup.keystore, &secrets).await?;
    // Of an account that was not joined in the end.
    shared
        .replica
        .store()
        .write(Durability::Synced, records::clear_floors)
        .await
        .map_err(VaultError::from)?;
    let asked = CreateAccountRequest {
        genesis: encode64(&genesis.entry.encode()),
        wraps: genesis.wraps.iter().map(|wrap| encode64(&wrap.encode())).collect(),
        invite: request.invite,
    };
    // The invite is used up even where the answer is lost.
    let answer = answered(|| client.create_account(&asked)).await?;
    if answer.account_id != genesis.chain.account() {
        return Err(LinkError::Malformed("it names another account than the one that was made"));
    }
    let record = AccountRecord {
        account: answer.account_id,
        device: keys.id(),
        server: answer.server_id,
        url: request.url,
        authority: setup.authority.map(Into::into),
        keystore: setup.keystore,
        name: setup.name,
        joining: false,
    };
    let given = self::answer(&record);
    let (device, name) = (record.device, record.name.clone());
    shared.vault.found(record.clone(), secrets, vec![genesis.entry]).await?;
    shared.show_account(&record);
    // A name is a comfort: without it the account works all the same.
    if let Err(error) = name_device(&shared.vault, &client, device, &name).await {
        tracing::warn!(%error, "this computer's name could not be told to the account");
    }
    shared.founded.notify_one();
    Ok(given)
}

/// Checks that this computer may join an account: it has none, or was unlinked from the one that is
/// given. What that left half done is taken back, so that unsent writes go out under new keys.
pub(super) async fn may_join(shared: &Shared) -> Result<Option<AccountId>, LinkError> {
    let Some(record) = shared.vault.account().await? else { return Ok(None) };
    if !shared.vault.is_retired().await? {
        return Err(LinkError::Present);
    }
    let now = shared.clock.now();
    renew::renew(&shared.replica, record.device, RenewCause::Copied, false, now)
        .await
        .map_err(VaultError::from)?;
    Ok(Some(record.account))
}

/// Sends a request again, once, where its answer was lost: the server does the same thing only
/// once.
pub(super) async fn answered<T, F>(call: impl Fn() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    match call().await {
        Err(ClientError::Interrupted(_) | ClientError::Timeout) => call().await,
        done => done,
    }
}

/// What of a setup was chosen, with what was not.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) authority: Option<Vec<u8>>,
    pub(super) name: String,
    pub(super) keystore: KeystoreKind,
}

pub(super) async fn prepare(
    shared: &Shared,
    request: &SetupRequest,
) -> Result<Prepared, LinkError> {
    let setup = &request.setup;
    let name = setup.name.clone().unwrap_or_else(host_name);
    check_name(&name)?;
    let keystore = match &setup.keystore {
        Some(kind) => kind.parse()?,
        None => shared.vault.keystore().choose().await,
    };
    let authority = setup.authority.clone().map(String::into_bytes);
    Ok(Prepared { authority, name, keystore })
}

/// Refuses what cannot be a device's name.
pub(super) fn check_name(name: &str) -> Result<(), LinkError> {
    if name.is_empty() || name.len() > entries::NAME || name.chars().any(char::is_control) {
        return Err(LinkError::BadName);
    }
    Ok(())
}

/// The computer's host name, shortened at a character.
fn host_name() -> String {
    let uname = rustix::system::uname();
    let mut name = uname.nodename().to_string_lossy().replace(char::is_control, "");
    while name.len() > entries::NAME {
        name.pop();
    }
    if name.is_empty() { "computer".to_owned() } else { name }
}

/// The account as apps and command line see it.
pub(super) fn answer(record: &AccountRecord) -> AccountAnswer {
    AccountAnswer {
        account: record.account,
        device: record.device,
        name: record.name.clone(),
        url: record.url.clone(),
        server: record.server,
        keystore: record.keystore.to_string(),
    }
}

/// Every device that ever was in the account, in the order of their linking.
pub(super) fn devices(shared: &Shared) -> Result<Vec<DeviceInfo>, LinkError> {
    let unlocked = shared.vault.unlocked().ok_or(LinkError::Missing)?;
    let mut devices: Vec<_> = unlocked.chain.devices().iter().collect();
    devices.sort_by_key(|(_, device)| device.added);
    Ok(devices.into_iter().filter_map(|(id, _)| device_info(&unlocked, *id)).collect())
}

/// One device; none if it is not in the chain.
pub(super) fn device_info(unlocked: &Unlocked, id: tidings_wire::DeviceId) -> Option<DeviceInfo> {
    let device = unlocked.chain.devices().get(&id)?;
    let sealed = device.name.as_ref();
    let name = sealed.and_then(|sealed| entries::open_name(&unlocked.keyring, id, sealed));
    // Another device chose it: it must not drive this one's terminal.
    let name = name.map(|name| name.replace(char::is_control, "\u{fffd}"));
    Some(DeviceInfo {
        id,
        name,
        kind: match device.public.kind {
            DeviceKind::Computer => DeviceRole::Computer,
            DeviceKind::Paper => DeviceRole::Paper,
        },
        this: id == unlocked.record.device,
        active: device.is_active(),
    })
}

/// Reads the chain on from the pinned head and takes what extends it. Gives how the server's
/// stands to the pinned one: `Same` or `Later` (taken), `Earlier` (shorter), `Fork`.
pub(super) async fn read_chain(vault: &Vault, client: &SyncClient) -> Result<Relation, ReadError> {
    let mut relation = Relation::Same;
    loop {
        let unlocked = vault.unlocked().ok_or(VaultError::Locked)?;
        let pinned = unlocked.chain.head();
        let query =
            ChainQuery { account_id: unlocked.record.account, from: unlocked.chain.next_index().0 };
        let answer = client.chain(&query).await?;
        if answer.entries.is_empty() {
            return Ok(match unlocked.chain.relation(answer.head) {
                Relation::Same => relation,
                Relation::Earlier => Relation::Earlier,
                // It names more than it gives, or something else at our head.
                Relation::Later | Relation::Fork => Relation::Fork,
            });
        }
        let entries = decode_entries(&answer.entries)?;
        let follows = entries.first().is_some_and(|entry| entry.entry.prev == pinned.hash);
        if !follows {
            return Ok(Relation::Fork);
        }
        vault.extend_chain(entries).await?;
        relation = Relation::Later;
    }
}

/// Reads a whole chain from its genesis on and folds it as it comes, so that nothing is gathered
/// that no device of the account signed.
pub(super) async fn read_whole_chain(
    client: &SyncClient,
    account: AccountId,
) -> Result<(Chain, Vec<SignedEntry>), ReadError> {
    let (mut chain, mut entries) = (None, Vec::new());
    loop {
        let from = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let answer = client.chain(&ChainQuery { account_id: account, from }).await?;
        if answer.entries.is_empty() {
            let chain = chain.ok_or(VaultError::Chain(ChainError::NoGenesis))?;
            return Ok((chain, entries));
        }
        for entry in decode_entries(&answer.entries)? {
            chain = Some(match chain.take() {
                None => Chain::fold(account, [&entry]).map_err(VaultError::Chain)?,
                Some(mut chain) => {
                    chain.extend(&entry).map_err(VaultError::Chain)?;
                    chain
                }
            });
            entries.push(entry);
        }
        if entries.len() > MOST_ENTRIES {
            return Err(ReadError::Malformed("its device chain has no end"));
        }
    }
}

/// Most entries of a chain that a new device folds.
const MOST_ENTRIES: usize = 1 << 16;

fn decode_entries(texts: &[String]) -> Result<Vec<SignedEntry>, ReadError> {
    let malformed = ReadError::Malformed("an entry of the device chain is not one");
    if texts.len() > limits::CHAIN_PAGE {
        return Err(ReadError::Malformed("it gives more of the device chain than a page holds"));
    }
    let decode = |text: &String| SignedEntry::decode(&decode64(text)?).ok();
    texts.iter().map(decode).collect::<Option<_>>().ok_or(malformed)
}

/// Which secrets are held once the key ring was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// That of every epoch.
    All,
    /// Not all: the server keeps one back, or gives one that does not fit the chain.
    Some,
}

/// Reads the key ring where secrets of epochs are missing, and takes those that fit the chain.
pub(super) async fn read_keyring(vault: &Vault, client: &SyncClient) -> Result<Held, ReadError> {
    let unlocked = vault.unlocked().ok_or(VaultError::Locked)?;
    let missing =
        |keyring: &Keyring| unlocked.chain.epochs().keys().any(|epoch| !keyring.contains(*epoch));
    if !missing(&unlocked.keyring) {
        return Ok(Held::All);
    }
    let answer = client.keyring().await?;
    let before = unlocked.keyring.epochs().count();
    let keyring = open_keyring(&unlocked, &answer);
    let held = if missing(&keyring) { Held::Some } else { Held::All };
    if keyring.epochs().count() > before {
        vault.replace_keyring(keyring).await?;
    }
    Ok(held)
}

/// Opens what the server gave of the key ring: what fits the chain joins what is held.
pub(super) fn open_keyring(unlocked: &Unlocked, answer: &KeyringResponse) -> Keyring {
    let mut keyring = unlocked.keyring.clone();
    // From the newest down, so that each sealed earlier secret finds the one that seals it.
    for epoch in answer.epochs.iter().rev() {
        if let Some(wrap) = &epoch.wrap {
            let wrap = decode64(wrap).and_then(|bytes| Wrap::decode(&bytes).ok());
            if let Some(wrap) = wrap
                && wrap.device == unlocked.record.device
                && !keyring.contains(wrap.epoch)
                && let Err(error) = keyring.accept_wrap(&unlocked.chain, &unlocked.keys, &wrap)
            {
                tracing::warn!(%error, "a wrapped secret was refused");
            }
        }
        if let Some(sealed) = &epoch.earlier {
            let sealed = decode64(sealed).and_then(|bytes| SealedEarlier::decode(&bytes).ok());
            if let Some(sealed) = sealed
                && !keyring.contains(sealed.seals)
                && let Err(error) = keyring.accept_earlier(&unlocked.chain, &sealed)
            {
                tracing::warn!(%error, "a sealed secret was refused");
            }
        }
    }
    keyring
}

/// Appends an entry to the chain, made anew as often as another one came first. `make` gives the
/// request for the chain as it is.
pub(super) async fn append(
    vault: &Vault,
    client: &SyncClient,
    mut make: impl FnMut(&Unlocked) -> Result<entries::NewEntry, VaultError>,
) -> Result<(), LinkError> {
    const TRIES: usize = 5;
    let mut last = None;
    for _ in 0..TRIES {
        let unlocked = vault.unlocked().ok_or(LinkError::Missing)?;
        match post(vault, client, make(&unlocked)?).await {
            Ok(()) => return Ok(()),
            Err(LinkError::Server(error)) if error.code() == Some(Code::ChainMoved) => {
                read_chain(vault, client).await?;
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.map_or(LinkError::Malformed("its device chain does not stand still"), Into::into))
}

/// Sends one entry, and takes it once the server has it. The secret of an epoch that it starts lies
/// here before.
pub(super) async fn post(
    vault: &Vault,
    client: &SyncClient,
    mut new: entries::NewEntry,
) -> Result<(), LinkError> {
    let account = new.chain.account();
    if let Some((epoch, secret)) = new.secret.take() {
        vault.prepare(&new.chain, epoch, secret).await?;
    }
    let asked = request(account, &new);
    answered(|| client.append_chain(&asked)).await?;
    vault.extend_chain(vec![new.entry]).await?;
    Ok(())
}

/// The request that appends an entry.
pub(super) fn request(account: AccountId, new: &entries::NewEntry) -> AppendChainRequest {
    AppendChainRequest {
        account_id: account,
        entry: encode64(&new.entry.encode()),
        wraps: new.wraps.iter().map(|wrap| encode64(&wrap.encode())).collect(),
        earlier: new.earlier.as_ref().map(|earlier| encode64(&earlier.encode())),
    }
}

/// Tells the account what a device is called.
pub(super) async fn name_device(
    vault: &Vault,
    client: &SyncClient,
    device: tidings_wire::DeviceId,
    name: &str,
) -> Result<(), LinkError> {
    append(vault, client, |unlocked| {
        let Unlocked { keys, chain, keyring, .. } = unlocked;
        entries::name_device(keys, chain, keyring, device, name, &mut random::system())
            .map_err(VaultError::Build)
    })
    .await
}
