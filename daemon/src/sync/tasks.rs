//! What one order of the engine comes to: a call to the server or a job of the store, as a future
//! that ends in an [`Event`].

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidings_client::remote::{ClientError, PullFilter, Replica as Puller, SyncClient};
use tidings_crypto::answer_challenge;
use tidings_engine::{
    AccountFacts, ChainVerdict, EngineStart, Failure, PagePlan, PullOrder, PushAnswer, PushFailure,
    RenewCause, Retried, Testimony,
};
use tidings_proof::signin::Challenge;
use tidings_proof::{Relation, Signature};
use tidings_wire::auth::{Action, ChallengeRequest, TokenRequest};
use tidings_wire::sync::{PushRequest, PushResponse};
use tidings_wire::{AppId, ManifestNumber};

use super::account::{Held, LinkError, read_chain, read_keyring};
use super::freeze::{self, FreezeError, Freezer};
use super::page::{self, OpenedPage, chain_verdict};
use super::remote::{failure, push_failure};
use super::{Shared, anchor, quarantine, records, renew, start};
use crate::replica::Replica;
use crate::store::{CommitError, Durability, StoreError, Txn};
use crate::vault::{Unlocked, VaultError};

/// What happened.
#[derive(Debug)]
pub(super) enum Event {
    /// A token, its life and the client that carries it.
    Token(SyncClient, Duration),
    TokenFailed(Failure),
    Account(AccountFacts),
    AccountFailed(Failure),
    Page(PullOrder, Box<OpenedPage>, Arc<Unlocked>),
    PullFailed(PullOrder, Failure),
    Stored(Box<PagePlan>, quarantine::Held),
    Frozen {
        app: AppId,
        n: Option<ManifestNumber>,
        outbox: bool,
    },
    FreezeFailed(AppId),
    Pushed {
        app: AppId,
        ticket: u64,
        answer: PushAnswer,
        outbox: bool,
    },
    PushFailed {
        app: AppId,
        ticket: u64,
        failure: PushFailure,
    },
    Renewed(Box<EngineStart>),
    RenewFailed(RenewCause, bool),
    /// What lies in an app's quarantine was tried again; none if it could not be.
    Retried(AppId, Option<Retried>),
    /// Nothing came of it.
    Nothing,
}

/// Signs in: a challenge that the pinned server signs, answered by the device's key.
pub(super) async fn sign_in(
    shared: Arc<Shared>,
    unlocked: Arc<Unlocked>,
    client: SyncClient,
) -> Event {
    match token(&shared, &unlocked, &client).await {
        Ok((client, life)) => Event::Token(client, life),
        Err(failure) => Event::TokenFailed(failure),
    }
}

/// Gets a token: the client that carries it, and its life.
pub(super) async fn token(
    shared: &Shared,
    unlocked: &Unlocked,
    client: &SyncClient,
) -> Result<(SyncClient, Duration), Failure> {
    obtain_token(shared, unlocked, client).await.map_err(|error| match error {
        LinkError::Server(error) => shared.note("sign in", &error),
        error => {
            tracing::warn!(%error, "not signed in");
            Failure::Refused
        }
    })
}

/// The same with the reason why there is none.
pub(super) async fn obtain_token(
    shared: &Shared,
    unlocked: &Unlocked,
    client: &SyncClient,
) -> Result<(SyncClient, Duration), LinkError> {
    let record = &unlocked.record;
    let (account_id, device_id) = (record.account, record.device);
    let asked = shared.clock.now();
    let challenge = client.challenge(&ChallengeRequest { account_id, device_id }).await?;
    shared.learn_time(asked, challenge.now_ms);
    let answer = answer(unlocked, &challenge)
        .ok_or(LinkError::Malformed("it is not the one that this account was made on"))?;
    let signature = encode64(&answer.0);
    let request = TokenRequest { account_id, device_id, nonce: challenge.nonce, signature };
    let token = client.token(&request).await?;
    // By the server's clock alone: this computer's may be anything.
    let life = Duration::from_millis(token.expires_ms.saturating_sub(token.now_ms));
    Ok((client.with_token(&token.token), life))
}

fn answer(
    unlocked: &Unlocked,
    response: &tidings_wire::auth::ChallengeResponse,
) -> Option<Signature> {
    let challenge = Challenge {
        server: unlocked.record.server,
        account: unlocked.record.account,
        device: unlocked.record.device,
        nonce: decode64(&response.nonce)?.try_into().ok()?,
    };
    let token_key = decode64(&response.token_key)?.try_into().ok()?;
    let signature = Signature(decode64(&response.signature)?.try_into().ok()?);
    answer_challenge(&unlocked.keys, &challenge, &token_key, &signature, Action::SignIn).ok()
}

/// Reads chain, key ring and app list.
pub(super) async fn read_account(
    shared: Arc<Shared>,
    client: SyncClient,
    signed_in: bool,
) -> Event {
    match account(&shared, &client, signed_in).await {
        Ok(facts) => Event::Account(facts),
        Err(failure) => Event::AccountFailed(failure),
    }
}

async fn account(
    shared: &Arc<Shared>,
    client: &SyncClient,
    signed_in: bool,
) -> Result<AccountFacts, Failure> {
    let before = shared.vault.unlocked().ok_or(Failure::Busy(None))?;
    let relation =
        read_chain(&shared.vault, client).await.map_err(|error| vault_failure(shared, error))?;
    shared.report_chain_invalid(false);
    match shared.vault.retire().await {
        Ok(false) => {}
        // Nothing is left to be done with this account; the driver says so, and tries again where
        // the keychain did not let go of the keys.
        gone => {
            shared.founded.notify_one();
            gone.map_err(|error| vault_failure(shared, error.into()))?;
            return Err(Failure::Unlinked);
        }
    }
    if !signed_in {
        return Err(Failure::Unlinked);
    }
    let held =
        read_keyring(&shared.vault, client).await.map_err(|error| vault_failure(shared, error))?;
    shared.report_bad_wrap(held == Held::Some);
    if anchor::anchor(shared, client).await {
        // Manifests and blobs that wait are judged anew by what counts now.
        shared.founded.notify_one();
    }
    let apps = client.apps().await.map_err(|error| shared.note("read the apps", &error))?;
    let after = shared.vault.unlocked().ok_or(Failure::Busy(None))?;
    let changed = before.chain.head() != after.chain.head()
        || before.keyring.newest() != after.keyring.newest();
    Ok(AccountFacts {
        chain: match relation {
            Relation::Fork => ChainVerdict::Fork,
            _ => ChainVerdict::Known,
        },
        chain_shorter: relation == Relation::Earlier,
        changed,
        apps: apps.apps.into_iter().map(|app| app.app_id).collect(),
    })
}

/// Pulls a page, verifies and opens it.
pub(super) async fn pull(
    shared: Arc<Shared>,
    client: SyncClient,
    own: tidings_proof::Replica,
    order: PullOrder,
) -> Event {
    let Some(unlocked) = shared.vault.unlocked() else {
        return Event::PullFailed(order, Failure::Busy(None));
    };
    let puller =
        Puller { app: order.app.clone(), device: own.device, incarnation: own.incarnation };
    let filter = PullFilter {
        tables: (!order.tags.is_empty()).then(|| order.tags.clone()),
        since_ms: None,
        limit: Some(order.limit),
        known: order.known.clone(),
    };
    let asked = shared.clock.now();
    let answer = client.pull_filtered(&puller, order.cursor.as_deref(), &filter).await;
    let response = match answer {
        Ok(response) => response,
        Err(error) => return Event::PullFailed(order, shared.note("pull", &error)),
    };
    shared.learn_time(asked, response.now_ms);
    let (app, keys) = (order.app.clone(), Arc::clone(&unlocked));
    let opened = tokio::task::spawn_blocking(move || page::open_page(&keys, &app, response)).await;
    match opened {
        Ok(page) => {
            shared.report_revoked_authors(&unlocked, &page.revoked);
            Event::Page(order, Box::new(page), unlocked)
        }
        Err(error) => {
            tracing::error!(%error, "a page could not be opened");
            Event::PullFailed(order, Failure::Refused)
        }
    }
}

/// Stores a page as the engine planned.
pub(super) async fn store(
    shared: Arc<Shared>,
    unlocked: Arc<Unlocked>,
    order: PullOrder,
    page: OpenedPage,
    plan: PagePlan,
    own: tidings_proof::Replica,
) -> Event {
    let now = shared.clock.now();
    let ahead = page.ahead(shared.latest_time());
    let stored =
        page::store_page(&shared.replica, &unlocked, page, &plan, own.incarnation, now).await;
    let counted = match stored {
        Ok(()) => {
            shared.report_ahead(&unlocked, &ahead);
            quarantine::held(&shared.replica, &plan.app).await.map_err(CommitError::Store)
        }
        Err(error) => Err(error),
    };
    match counted {
        Ok(quarantined) => Event::Stored(Box::new(plan), quarantined),
        Err(error) => {
            tracing::warn!(app = %order.app, %error, "a page could not be stored");
            Event::PullFailed(order, Failure::Busy(None))
        }
    }
}

/// Freezes a prefix of the outbox.
pub(super) async fn freeze(shared: Arc<Shared>, app: AppId, testimony: Testimony) -> Event {
    let most = shared.settings.push_bytes;
    match frozen(&shared, &app, testimony, Some(most)).await {
        Ok((n, outbox)) => Event::Frozen { app, n, outbox },
        Err(error) => {
            tracing::warn!(%app, %error, "the outbox could not be frozen");
            shared.set_trouble(Some(format!("changes of {app} cannot be sealed: {error}")));
            Event::FreezeFailed(app)
        }
    }
}

/// Signs a manifest without blobs.
pub(super) async fn sign_manifest(shared: Arc<Shared>, app: AppId, testimony: Testimony) -> Event {
    match frozen(&shared, &app, testimony, None).await {
        Ok((n, outbox)) => Event::Frozen { app, n, outbox },
        Err(error) => {
            tracing::warn!(%app, %error, "a manifest could not be signed");
            Event::FreezeFailed(app)
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error(transparent)]
    Freeze(#[from] FreezeError),
    #[error(transparent)]
    Commit(#[from] CommitError<FreezeError>),
    #[error(transparent)]
    Restamp(#[from] CommitError<StoreError>),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the keys are locked")]
    Locked,
}

/// Seals away from the committer, which then only has to store; `most` is none for a manifest
/// without blobs.
async fn frozen(
    shared: &Shared,
    app: &AppId,
    testimony: Testimony,
    most: Option<usize>,
) -> Result<(Option<ManifestNumber>, bool), OrderError> {
    let unlocked = shared.vault.unlocked().ok_or(OrderError::Locked)?;
    // What is sealed must still be what the outbox holds when it is stored, and stamping anew
    // changes the outboxes of all apps.
    let _one = shared.freezing.lock().await;
    if most.is_some() {
        let frozen = |txn: &Txn<'_>, app: &AppId| {
            let frozen = records::frozen(txn, app)?.and_then(|frozen| frozen.through());
            Ok(frozen.unwrap_or_default())
        };
        if shared.replica.restamp(frozen).await? {
            tracing::info!("unsent writes were stamped anew");
        }
    }
    let (name, now_ms) = (app.clone(), shared.clock.now());
    let sealed = shared
        .replica
        .read(move |source| {
            if records::frozen(source, &name)?.is_some() {
                return Ok(None);
            }
            let incarnation = Replica::identity(source)?.incarnation;
            let freezer = Freezer {
                unlocked: &unlocked,
                app: &name,
                incarnation,
                testimony: &testimony,
                now_ms,
            };
            match most {
                Some(most) => freezer.freeze(source, most),
                None => freezer.bare(source).map(Some),
            }
        })
        .await?;
    let name = app.clone();
    let stored = shared
        .replica
        .update(app, Durability::Synced, move |txn| {
            let incarnation = Replica::identity(txn)?.incarnation;
            let n = match sealed {
                Some(sealed) => sealed.store(txn, &name, incarnation)?,
                None => records::frozen(txn, &name)?.map(|frozen| frozen.n),
            };
            Ok::<_, FreezeError>((n, outbox_beyond(txn, &name)?))
        })
        .await?;
    Ok(stored)
}

/// Whether the outbox holds more than what is frozen.
fn outbox_beyond(source: &impl crate::store::Reader, app: &AppId) -> Result<bool, StoreError> {
    use crate::replica::outbox;

    let frozen = records::frozen(source, app)?.and_then(|frozen| frozen.through());
    let after = frozen.unwrap_or_default();
    Ok(!outbox::after(source, app, after, 1)?.is_empty())
}

/// Signs a new manifest for the frozen blobs.
pub(super) async fn resign(shared: Arc<Shared>, app: AppId, testimony: Testimony) -> Event {
    let Some(unlocked) = shared.vault.unlocked() else { return Event::FreezeFailed(app) };
    let (name, now_ms) = (app.clone(), shared.clock.now());
    let signed = shared
        .replica
        .update(&app, Durability::Synced, move |txn| {
            let incarnation = Replica::identity(txn)?.incarnation;
            let freezer = Freezer {
                unlocked: &unlocked,
                app: &name,
                incarnation,
                testimony: &testimony,
                now_ms,
            };
            let n = freezer.resign(txn)?;
            Ok::<_, FreezeError>((n, outbox_beyond(txn, &name)?))
        })
        .await;
    match signed {
        Ok((n, outbox)) => Event::Frozen { app, n, outbox },
        Err(error) => {
            tracing::warn!(%app, %error, "a manifest could not be signed anew");
            shared.set_trouble(Some(format!("changes of {app} cannot be signed: {error}")));
            Event::FreezeFailed(app)
        }
    }
}

/// Sends the frozen push; what the server took leaves the outbox before anybody hears of it.
pub(super) async fn push(
    shared: Arc<Shared>,
    client: SyncClient,
    app: AppId,
    ticket: u64,
) -> Event {
    let name = app.clone();
    let read = shared.replica.read(move |source| {
        let Some(frozen) = records::frozen(source, &name)? else { return Ok(None) };
        Ok::<_, StoreError>(Some((frozen, records::frozen_blobs(source, &name)?)))
    });
    let (frozen, blobs) = match read.await {
        Ok(Some(read)) => read,
        // A hook's commit failed after it had frozen, or is not done yet.
        Ok(None) => {
            let failure = PushFailure::NothingFrozen;
            return Event::PushFailed { app, ticket, failure };
        }
        Err(error) => {
            tracing::warn!(%app, %error, "the frozen push cannot be read");
            let failure = PushFailure::Failed(Failure::Busy(None));
            return Event::PushFailed { app, ticket, failure };
        }
    };
    let request = PushRequest {
        blobs: blobs.into_iter().map(Into::into).collect(),
        manifest: frozen.manifest.clone(),
    };
    let response = match client.push(&app, &request).await {
        Ok(response) => response,
        Err(error) => {
            shared.note("push", &error);
            let failure = push_failure(&error);
            // What the push itself has to settle first is nobody's business.
            let refused =
                matches!(failure, PushFailure::Failed(Failure::Busy(_) | Failure::Refused));
            let words = error.problem().map(|problem| problem.message.clone());
            shared.set_refusal(&app, words.filter(|_| refused));
            return Event::PushFailed { app, ticket, failure };
        }
    };
    let name = app.clone();
    let settled = shared
        .replica
        // Lost in a power cut, the same is sent again and answered again.
        .update(&app, Durability::Relaxed, move |txn| {
            freeze::settle(txn, &name, frozen.incarnation, frozen.n)?;
            outbox_beyond(txn, &name)
        })
        .await;
    match settled {
        Ok(outbox) => {
            shared.set_refusal(&app, None);
            let answer = push_answer(&shared, &response);
            Event::Pushed { app, ticket, answer, outbox }
        }
        Err(error) => {
            tracing::warn!(%app, %error, "an answer to a push could not be stored");
            let failure = PushFailure::Failed(Failure::Busy(None));
            Event::PushFailed { app, ticket, failure }
        }
    }
}

fn push_answer(shared: &Shared, response: &PushResponse) -> PushAnswer {
    let chain = shared.vault.unlocked().map(|unlocked| chain_verdict(&unlocked, response.chain));
    PushAnswer {
        generation: response.generation,
        position: response.position,
        manifest: response.manifest,
        chain: chain.unwrap_or(ChainVerdict::Known),
    }
}

/// Takes a new incarnation.
pub(super) async fn renew(shared: Arc<Shared>, cause: RenewCause, refill: bool) -> Event {
    let Some(unlocked) = shared.vault.unlocked() else { return Event::RenewFailed(cause, refill) };
    tracing::info!(?cause, refill, "this replica takes a new incarnation");
    let now = shared.clock.now();
    if let Err(error) =
        renew::renew(&shared.replica, unlocked.record.device, cause, refill, now).await
    {
        tracing::warn!(%error, "a new incarnation could not be taken");
        return Event::RenewFailed(cause, refill);
    }
    match read_start(&shared, unlocked).await {
        Ok(start) => Event::Renewed(Box::new(start)),
        Err(error) => {
            tracing::warn!(%error, "the new incarnation cannot be read");
            Event::RenewFailed(cause, false)
        }
    }
}

/// Opens what can be opened now of what lies in an app's quarantine.
pub(super) async fn retry_quarantine(shared: Arc<Shared>, app: AppId) -> Event {
    let Some(unlocked) = shared.vault.unlocked() else { return Event::Retried(app, None) };
    let retried = quarantine::retry(&shared.replica, unlocked, &app).await;
    let counted = match retried {
        Ok(retried) => {
            let held = quarantine::held(&shared.replica, &app).await;
            held.map(|held| (retried, held)).map_err(CommitError::Store)
        }
        Err(error) => Err(error),
    };
    match counted {
        Ok((retried, held)) => {
            shared.report_quarantine(&app, held);
            Event::Retried(app, Some(retried))
        }
        Err(error) => {
            tracing::warn!(%app, %error, "the quarantine could not be tried again");
            Event::Retried(app, None)
        }
    }
}

/// Reads what the engine starts from.
pub(super) async fn read_start(
    shared: &Shared,
    unlocked: Arc<Unlocked>,
) -> Result<EngineStart, StoreError> {
    shared.replica.read(move |source| start::read(source, &unlocked)).await
}

fn vault_failure(shared: &Shared, error: super::account::ReadError) -> Failure {
    match error {
        super::account::ReadError::Client(error) => shared.note("read the account", &error),
        super::account::ReadError::Vault(error) => {
            tracing::warn!(%error, "chain or keys could not be taken");
            if matches!(&error, VaultError::Chain(error) if !error.needs_newer()) {
                shared.report_chain_invalid(true);
            }
            match error {
                VaultError::Store(_) | VaultError::Keystore(_) | VaultError::Locked => {
                    Failure::Busy(None)
                }
                _ => Failure::Refused,
            }
        }
        super::account::ReadError::Malformed(what) => {
            tracing::warn!(what, "the server's answer is malformed");
            Failure::Refused
        }
    }
}

/// base64url without padding, as the wire has bytes in JSON.
pub(super) fn encode64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads what [`encode64`] wrote.
pub(super) fn decode64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).ok()
}

impl Shared {
    /// Notes why a call failed, and what follows from it.
    pub(super) fn note(&self, doing: &'static str, error: &ClientError) -> Failure {
        tracing::debug!(%error, doing, "a call failed");
        self.set_trouble(Some(error.to_string()));
        failure(error)
    }

    /// Why the server cannot be used now, in words; none once it can.
    pub(super) fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// The later of this computer's time and the server's, either of which may be wrong: what lies
    /// ahead of both is ahead.
    pub(super) fn latest_time(&self) -> i64 {
        let offset = self.clock.server_offset().unwrap_or(0);
        self.clock.now().saturating_add(offset.max(0))
    }

    /// Notes the server's time of an answer that was asked for at `asked` by this clock: the truth
    /// lies between asking and now, and half way is as good as any.
    pub(super) fn learn_time(&self, asked: i64, server_ms: u64) {
        let now = self.clock.now();
        let half = asked.saturating_add(now.saturating_sub(asked) / 2);
        let Ok(server) = i64::try_from(server_ms) else { return };
        let offset = server.saturating_sub(half);
        self.clock.learn_server_offset(offset);
        self.report_clock(offset, now);
    }
}
