//! Linking a computer by a short code: both ends, through the server's mailbox.
//!
//! The new computer shows a code and waits; the person types it on a linked one. What passes
//! through the mailbox is `tidings-crypto`'s; here are the calls, the chain and the patience.

use std::sync::Arc;
use std::time::Duration;

use tidings_client::ErrorKind;
use tidings_client::remote::SyncClient;
use tidings_crypto::pairing::{
    Answer, Inviter, InviterEvent, Joiner, JoinerEvent, Linked, Offer, PairingCode, PairingError,
    StopReason, refusal,
};
use tidings_crypto::{DeviceKeys, Keyring, entries, random};
use tidings_proof::manifest::AppManifestHead;
use tidings_proof::{Relation, SignedManifest, server_id};
use tidings_wire::linking::{AccountAnswer, DeviceInfo, LoginEvent, LoginStep, PairingCodeShown};
use tidings_wire::pairing::{PutMailboxRequest, ReadMailboxQuery, Side};
use tidings_wire::sync::{ChainHead, ManifestMark};
use tidings_wire::{AccountId, Code, DeviceId, Nameplate, ServerId};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::account::{
    LinkError, Prepared, SetupRequest, answer, answered, device_info, may_join, name_device,
    prepare, read_chain, read_keyring, read_whole_chain, request,
};
use super::remote::{client, client_of};
use super::tasks::{decode64, encode64, token};
use super::{Shared, records};
use crate::clock::utc;
use crate::store::{Durability, StoreError};
use crate::vault::{AccountRecord, Secrets, Unlocked, VaultError};

/// Where the new computer's end says what happens.
pub type Progress = mpsc::Sender<LoginEvent>;

/// Seconds that one read of a mailbox waits on the server.
const WAIT: u32 = 25;
/// How long a linked computer waits for the new one's next message.
const PATIENCE: Duration = Duration::from_secs(120);

/// Links this computer: shows a code, waits for a linked one, joins.
pub(super) async fn login(
    shared: &Arc<Shared>,
    request: SetupRequest,
    progress: Progress,
) -> Result<AccountAnswer, LinkError> {
    let Ok(_one) = shared.changing.try_lock() else { return Err(LinkError::Busy) };
    let former = may_join(shared).await?;
    let setup = prepare(shared, &request).await?;
    let client = client_of(&request.url, setup.authority.clone(), shared.settings.timeouts)?;
    let answer = match join(shared, &client, &request.url, setup, former, &progress).await {
        Ok(answer) => answer,
        Err(error) => after_all(shared, &client, error).await?,
    };
    shared.founded.notify_one();
    let _ = tell(&progress, LoginEvent::Paired(answer.clone())).await;
    Ok(answer)
}

/// The other computer may have linked this one and the news be lost: then the chain says so.
/// Otherwise what was kept for joining goes again.
async fn after_all(
    shared: &Arc<Shared>,
    client: &SyncClient,
    error: LinkError,
) -> Result<AccountAnswer, LinkError> {
    let believed = !matches!(error, LinkError::Malformed(_) | LinkError::Vault(_));
    if let Some(record) = shared.vault.account().await?.filter(|record| record.joining)
        && believed
        && let Ok(answer) = finish(shared, client, record, None).await
    {
        return Ok(answer);
    }
    shared.vault.forget_joining().await?;
    Err(error)
}

async fn join(
    shared: &Arc<Shared>,
    client: &SyncClient,
    url: &str,
    setup: Prepared,
    former: Option<AccountId>,
    progress: &Progress,
) -> Result<AccountAnswer, LinkError> {
    let opened = client.open_mailbox().await?;
    check_server(opened.server_id, &opened.token_key)?;
    let rng = &mut random::system();
    let code = PairingCode::generate(opened.nameplate, rng);
    let now = shared.clock.now();
    // Ten minutes by the server's clock; this computer's may differ, and only shows it.
    tell(
        progress,
        LoginEvent::Code(PairingCodeShown {
            code: code.to_string(),
            expires_at: utc(now.saturating_add(MAILBOX_LIFE_MS)),
        }),
    )
    .await?;
    let (mut joiner, first) = Joiner::start(&code, opened.server_id, rng);
    let life = Duration::from_millis(MAILBOX_LIFE_MS.unsigned_abs());
    let mailbox = Mailbox::new(client, opened.nameplate, Side::New, Instant::now() + life);
    let mut mailbox = mailbox;
    mailbox.send(&first).await?;
    step(progress, "waiting for the code to be typed on a linked computer").await?;
    let keys = Arc::new(DeviceKeys::generate(rng));
    let mut joining: Option<AccountRecord> = None;
    loop {
        // Until it has answered the offer, nothing is lost when whoever asked has gone.
        let message = if joining.is_none() {
            tokio::select! {
                message = mailbox.next() => message?,
                () = progress.closed() => return Err(LinkError::Stopped),
            }
        } else {
            mailbox.next().await?
        };
        let event = match joiner.receive(&message) {
            Ok(event) => event,
            Err(error) => {
                if error == PairingError::WrongCode {
                    mailbox.send(&refusal()).await?;
                }
                return Err(error.into());
            }
        };
        match event {
            JoinerEvent::Confirmed(message) => {
                mailbox.send(&message).await?;
                step(progress, "the code was right; the other computer prepares the account")
                    .await?;
            }
            JoinerEvent::Waiting => {}
            JoinerEvent::Offer(offer) => {
                if former.is_some_and(|former| former != offer.account) {
                    return Err(LinkError::OtherAccount);
                }
                let record = AccountRecord {
                    account: offer.account,
                    device: keys.id(),
                    server: opened.server_id,
                    url: url.to_owned(),
                    authority: setup.authority.clone().map(Into::into),
                    keystore: setup.keystore,
                    name: setup.name.clone(),
                    joining: true,
                };
                take_offer(shared, client, &offer, &record, &keys).await?;
                mailbox.send(&joiner.answer(&keys, &setup.name, rng)?).await?;
                joining = Some(record);
                // From here on it goes through, watched or not.
                let _ = step(progress, "the other computer links this one").await;
            }
            JoinerEvent::Linked(linked) => {
                let record = joining.ok_or(LinkError::Pairing(PairingError::OutOfTurn))?;
                return finish(shared, client, record, Some(linked)).await;
            }
            JoinerEvent::Stopped(reason) => return Err(stopped(reason)),
        }
    }
}

/// A mailbox's life, in milliseconds.
const MAILBOX_LIFE_MS: i64 = 10 * 60 * 1_000;

/// Believes an offer: the server's chain of that account must fold and hold the offered head.
/// Keys and chain are kept before the answer goes, so that a crash after it loses neither.
async fn take_offer(
    shared: &Shared,
    client: &SyncClient,
    offer: &Offer,
    record: &AccountRecord,
    keys: &Arc<DeviceKeys>,
) -> Result<(), LinkError> {
    let (chain, entries) = read_whole_chain(client, offer.account).await?;
    match chain.relation(offer.chain) {
        Relation::Same | Relation::Earlier => {}
        Relation::Later => {
            return Err(LinkError::Malformed("it shows less than the linked computer knows"));
        }
        Relation::Fork => {
            return Err(LinkError::Malformed("it shows another list of computers"));
        }
    }
    let secrets = Secrets { keys: Arc::clone(keys), keyring: Keyring::new(offer.account) };
    shared.vault.found(record.clone(), secrets, entries).await?;
    let heads = offer.heads.clone();
    let keep = move |txn: &mut crate::store::Txn<'_>| {
        // Those of an account that was not joined in the end.
        records::clear_floors(txn)?;
        for head in &heads {
            let mark = ManifestMark { n: head.n, hash: head.hash };
            records::put_floor(txn, &head.app, &head.replica, &mark)?;
        }
        Ok::<_, StoreError>(())
    };
    shared.replica.store().write(Durability::Synced, keep).await.map_err(VaultError::from)?;
    Ok(())
}

/// Checks that this device stands in the chain, and ends the joining.
pub(super) async fn finish(
    shared: &Shared,
    client: &SyncClient,
    mut record: AccountRecord,
    linked: Option<Linked>,
) -> Result<AccountAnswer, LinkError> {
    read_chain(&shared.vault, client).await?;
    let unlocked = shared.vault.unlocked().ok_or(LinkError::Missing)?;
    if let Some(linked) = linked
        && !matches!(unlocked.chain.relation(linked.chain), Relation::Same | Relation::Earlier)
    {
        return Err(LinkError::Malformed("it hides that this computer was linked"));
    }
    if !unlocked.chain.is_active(record.device) {
        return Err(LinkError::Stopped);
    }
    record.joining = false;
    shared.vault.joined(record.clone()).await?;
    shared.show_account(&record);
    // What the account is called and holds can be read at once; if not, the driver tries again.
    if let Some(unlocked) = shared.vault.unlocked() {
        match token(shared, &unlocked, client).await {
            Ok((client, _)) => {
                if let Err(error) = read_keyring(&shared.vault, &client).await {
                    tracing::debug!(%error, "the key ring could not be read yet");
                }
            }
            Err(failure) => tracing::debug!(?failure, "not signed in yet"),
        }
    }
    Ok(answer(&record))
}

/// After a stop in the middle of linking: either this device stands in the chain by now, or the
/// code's time is over and everything kept for it goes.
///
/// # Errors
/// The server cannot be asked now.
pub(super) async fn resume(shared: &Arc<Shared>, unlocked: &Unlocked) -> Result<(), String> {
    let Ok(_one) = shared.changing.try_lock() else {
        // Linking is going on at this moment and says itself what becomes of it.
        return Ok(());
    };
    let record = unlocked.record.clone();
    let client = client(&record, shared.settings.timeouts).map_err(|error| error.to_string())?;
    match finish(shared, &client, record, None).await {
        Ok(_) => shared.founded.notify_one(),
        Err(LinkError::Server(error))
            if error.code().is_none() || error.kind() == ErrorKind::Retry =>
        {
            return Err(format!("linking was cut off and the server cannot be asked: {error}"));
        }
        Err(error @ (LinkError::Keystore(_) | LinkError::Vault(VaultError::Store(_)))) => {
            return Err(format!("linking was cut off and cannot go on now: {error}"));
        }
        Err(error) => {
            tracing::warn!(%error, "linking was cut off: start again with a new code");
            shared.vault.forget_joining().await.map_err(|error| error.to_string())?;
            shared.founded.notify_one();
        }
    }
    Ok(())
}

/// Links the computer that shows this code.
pub(super) async fn add_device(shared: &Arc<Shared>, code: &str) -> Result<DeviceInfo, LinkError> {
    let code: PairingCode = code.parse()?;
    let Ok(_one) = shared.changing.try_lock() else { return Err(LinkError::Busy) };
    let unlocked = shared.vault.unlocked().ok_or(LinkError::Missing)?;
    if unlocked.record.joining {
        return Err(LinkError::Missing);
    }
    let client = client(&unlocked.record, shared.settings.timeouts)?;
    let deadline = Instant::now() + PATIENCE;
    let mut mailbox = Mailbox::new(&client, code.nameplate(), Side::Old, deadline);
    let first = mailbox.next_of(unlocked.record.server).await?;
    let rng = &mut random::system();
    let started = Inviter::start(&code, unlocked.record.server, &first, rng);
    let (mut inviter, message) = started?;
    mailbox.send(&message).await?;
    let done = invite(shared, &client, &mut mailbox, &mut inviter).await;
    match &done {
        Err(LinkError::Pairing(PairingError::WrongCode)) => {
            // Spares the other side its wait; that it cannot be sent changes nothing.
            let _ = mailbox.send(&refusal()).await;
        }
        Err(_) => {
            if let Some(message) = inviter.stop(StopReason::Failed, rng) {
                let _ = mailbox.send(&message).await;
            }
        }
        Ok(_) => {}
    }
    let (device, name) = done?;
    if let Err(error) = name_device(&shared.vault, &client, device, &name).await {
        tracing::warn!(%error, "the new computer's name could not be told to the account");
    }
    shared.chain_changed.notify_one();
    let unlocked = shared.vault.unlocked().ok_or(LinkError::Missing)?;
    device_info(&unlocked, device).ok_or(LinkError::Missing)
}

/// From the first exchange on: offers the account, appends the answer, again if the chain moved.
async fn invite(
    shared: &Arc<Shared>,
    client: &SyncClient,
    mailbox: &mut Mailbox<'_>,
    inviter: &mut Inviter,
) -> Result<(DeviceId, String), LinkError> {
    const ROUNDS: usize = 5;
    let rng = &mut random::system();
    let mut offered = None;
    for _ in 0..=ROUNDS {
        match (inviter.receive(&mailbox.next().await?)?, offered) {
            (InviterEvent::Answer(answer), Some(head)) => {
                if let Some(head) = add(shared, client, head, &answer).await? {
                    mailbox.send(&inviter.linked(head, rng)?).await?;
                    return Ok((answer.device.id(), answer.name));
                }
            }
            (InviterEvent::Confirmed | InviterEvent::Answer(_), _) => {
                read_chain(&shared.vault, client).await?;
            }
            (InviterEvent::Stopped(reason), _) => return Err(stopped(reason)),
        }
        offered = Some(offer(shared, mailbox, inviter).await?);
    }
    Err(LinkError::Malformed("its device chain does not stand still"))
}

/// Offers the account as it stands; gives the head of the chain that was named.
async fn offer(
    shared: &Shared,
    mailbox: &mut Mailbox<'_>,
    inviter: &mut Inviter,
) -> Result<ChainHead, LinkError> {
    let unlocked = shared.vault.unlocked().ok_or(LinkError::Missing)?;
    let heads = manifest_heads(shared).await?;
    let (account, chain) = (unlocked.record.account, unlocked.chain.head());
    for message in inviter.offer(account, chain, &heads, &mut random::system())? {
        mailbox.send(&message).await?;
    }
    Ok(chain)
}

/// Appends the new device; gives the chain's head with it. None when the chain is not the one
/// that was offered any more.
async fn add(
    shared: &Shared,
    client: &SyncClient,
    offered: ChainHead,
    answer: &Answer,
) -> Result<Option<ChainHead>, LinkError> {
    let unlocked = shared.vault.unlocked().ok_or(LinkError::Missing)?;
    let Unlocked { keys, chain, keyring, record, .. } = unlocked.as_ref();
    if chain.head() != offered {
        return Ok(None);
    }
    let (device, co_signature) = (&answer.device, answer.co_signature);
    let rng = &mut random::system();
    let new = entries::add_device(keys, chain, keyring, device, co_signature, rng)
        .map_err(VaultError::Build)?;
    let asked = request(record.account, &new);
    match answered(|| client.append_chain(&asked)).await {
        Ok(_) => Ok(Some(shared.vault.extend_chain(vec![new.entry]).await?.head())),
        Err(error) if error.code() == Some(Code::ChainMoved) => {
            read_chain(&shared.vault, client).await?;
            let unlocked = shared.vault.unlocked().ok_or(LinkError::Missing)?;
            // It stands there where the answer was lost and another entry came after.
            let chain = &unlocked.chain;
            Ok(chain.is_active(answer.device.id()).then(|| chain.head()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Newest manifests that this device accepted, and its own that the server holds: the new device
/// refuses a server that shows less.
async fn manifest_heads(shared: &Shared) -> Result<Vec<AppManifestHead>, LinkError> {
    let unlocked = shared.vault.unlocked().ok_or(LinkError::Missing)?;
    let heads = shared.replica.read(move |source| {
        let mut heads = Vec::new();
        for app in records::apps(source)? {
            let record = records::record(source, &app)?;
            for (replica, bytes) in records::manifests(source, &app)? {
                let Ok(signed) = SignedManifest::decode(&bytes) else { continue };
                // Of an unlinked device nothing beyond its cut counts.
                let counts = signed.clone().verify(&unlocked.chain).is_ok();
                if record.lost.contains(&replica) || !counts {
                    continue;
                }
                let (n, hash) = (signed.manifest.n, signed.manifest.hash());
                heads.push(AppManifestHead { app: app.clone(), replica, n, hash });
            }
        }
        Ok::<_, StoreError>(heads)
    });
    Ok(heads.await?)
}

pub(super) fn check_server(id: ServerId, token_key: &str) -> Result<(), LinkError> {
    let key = decode64(token_key).and_then(|key| <[u8; 32]>::try_from(key).ok());
    match key {
        Some(key) if server_id(&key) == id => Ok(()),
        _ => Err(LinkError::Malformed("its key does not belong to its id")),
    }
}

fn stopped(reason: StopReason) -> LinkError {
    tracing::debug!(?reason, "the other computer gave up");
    LinkError::Stopped
}

async fn step(progress: &Progress, message: &str) -> Result<(), LinkError> {
    tell(progress, LoginEvent::Waiting(LoginStep { message: message.to_owned() })).await
}

/// Says what happens; whoever asked has gone when nobody listens any more.
async fn tell(progress: &Progress, event: LoginEvent) -> Result<(), LinkError> {
    progress.send(event).await.map_err(|_| LinkError::Stopped)
}

/// One side of a mailbox.
struct Mailbox<'a> {
    client: &'a SyncClient,
    nameplate: Nameplate,
    side: Side,
    deadline: Instant,
    sent: u32,
    received: u32,
    /// Messages that came and were not taken yet.
    waiting: std::collections::VecDeque<Vec<u8>>,
}

impl<'a> Mailbox<'a> {
    fn new(client: &'a SyncClient, nameplate: Nameplate, side: Side, deadline: Instant) -> Self {
        let waiting = std::collections::VecDeque::new();
        Self { client, nameplate, side, deadline, sent: 0, received: 0, waiting }
    }

    /// Writes this side's next message; the same again under the same number if the answer is
    /// lost.
    async fn send(&mut self, message: &[u8]) -> Result<(), LinkError> {
        let request = PutMailboxRequest { index: self.sent, message: encode64(message) };
        const TRIES: u32 = 3;
        for last in [false, false, true].into_iter().take(TRIES as usize) {
            match self.client.put_mailbox(self.nameplate, self.side, &request).await {
                Ok(()) => break,
                Err(error) if last || error.code().is_some() => return Err(gone(error)),
                Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
        self.sent = self.sent.saturating_add(1);
        Ok(())
    }

    /// The other side's next message, from a mailbox of this server.
    async fn next_of(&mut self, server: ServerId) -> Result<Vec<u8>, LinkError> {
        self.read(Some(server)).await
    }

    /// The other side's next message.
    async fn next(&mut self) -> Result<Vec<u8>, LinkError> {
        self.read(None).await
    }

    async fn read(&mut self, server: Option<ServerId>) -> Result<Vec<u8>, LinkError> {
        let other = match self.side {
            Side::New => Side::Old,
            Side::Old => Side::New,
        };
        let mut reached = self.sent > 0 || self.received > 0;
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Ok(message);
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LinkError::Expired);
            }
            let seconds = u32::try_from(left.as_secs().max(1)).unwrap_or(WAIT);
            let query = ReadMailboxQuery { from: self.received, wait: WAIT.min(seconds) };
            let read = match self.client.read_mailbox(self.nameplate, other, &query).await {
                Ok(read) => read,
                Err(error) if error.code().is_some() => return Err(gone(error)),
                // What no server of ours answers will not be better the next time.
                Err(error) if error.kind() != ErrorKind::Retry => return Err(error.into()),
                // A server that was never reached is better told of than waited for.
                Err(error) if !reached => return Err(error.into()),
                Err(error) => {
                    tracing::debug!(%error, "the mailbox could not be read");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    continue;
                }
            };
            reached = true;
            if server.is_some_and(|server| server != read.server_id) {
                return Err(LinkError::Malformed(
                    "it is not the one that this account was made on",
                ));
            }
            if read.messages.is_empty() {
                // A server that does not wait must not be asked without end.
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            for message in read.messages {
                let message = decode64(&message)
                    .ok_or(LinkError::Malformed("a pairing message is not base64url"))?;
                self.waiting.push_back(message);
                self.received = self.received.saturating_add(1);
            }
        }
    }
}

/// A mailbox that is gone means that the code is of no more use.
fn gone(error: tidings_client::remote::ClientError) -> LinkError {
    match error.code() {
        Some(Code::MailboxNotFound) => LinkError::Expired,
        _ => LinkError::Server(error),
    }
}
