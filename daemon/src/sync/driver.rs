//! The one task of the sync side: feeds the engine what happened, carries out what it orders.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tidings_client::remote::{Channel, Notice, NotifyStream, ReauthReason, StreamEnd, SyncClient};
use tidings_engine::{Engine, Failure, Output, PushFailure, Time};
use tidings_wire::sync::SubscribeQuery;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio_util::sync::CancellationToken;

use super::remote::{self, failure};
use super::sleep::SleepWatch;
use super::tasks::{self, Event};
use super::{Shared, devices, quarantine};
use crate::vault::{Unlocked, VaultError};
use tidings_wire::local::SyncState;

/// The task behind [`super::Sync`]; [`Driver::run`] is to be spawned once.
pub struct Driver {
    shared: Arc<Shared>,
}

/// How long a fault of this program is left alone.
const AFTER_A_FAULT: Duration = Duration::from_secs(60);

/// Why a session ended.
enum End {
    /// The daemon stops.
    Shutdown,
    /// The account changed: begin anew.
    Again,
}

/// Why there is nothing to sync now, although there is an account.
enum Idle {
    /// Something outside has to happen first.
    Waiting(String),
    /// The pinned chain says that this device was unlinked.
    Revoked,
}

impl Idle {
    fn waiting(error: impl std::fmt::Display) -> Self {
        Self::Waiting(error.to_string())
    }
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs until the token is cancelled. Without an account it waits for one; while the keychain
    /// is locked it asks again. After a fault of this program it begins anew from what is stored:
    /// what apps use goes on meanwhile, and nobody is told that all is well.
    pub async fn run(self, shutdown: CancellationToken) {
        let shared = Arc::clone(&self.shared);
        let driver = Arc::new(self);
        loop {
            let mut work = JoinSet::new();
            work.spawn(Arc::clone(&driver).work(shutdown.clone()));
            let Some(Err(error)) = work.join_next().await else { return };
            tracing::error!(%error, "the sync failed");
            shared.gate.open(BTreeMap::new());
            let reason = "a fault in the daemon; it is tried again in a minute".to_owned();
            shared.status.set_state(SyncState::Waiting, Some(reason));
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(AFTER_A_FAULT) => {}
            }
        }
    }

    async fn work(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            let wait = match self.begin().await {
                Ok(Some(session)) => match session.run(&shutdown).await {
                    End::Shutdown => return,
                    End::Again => continue,
                },
                Ok(None) => {
                    self.shared.status.set_state(SyncState::Local, None);
                    None
                }
                Err(Idle::Revoked) => {
                    self.shared.report_revoked();
                    None
                }
                Err(Idle::Waiting(reason)) => {
                    self.shared.status.set_state(SyncState::Waiting, Some(reason));
                    Some(self.shared.settings.unlock_every)
                }
            };
            let asleep = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.shared.founded.notified() => {}
                () = asleep => {}
            }
        }
    }

    /// A session, if there is an account and its keys are here.
    async fn begin(&self) -> Result<Option<Session>, Idle> {
        let shared = &self.shared;
        match shared.vault.unlock().await {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(VaultError::Revoked) => {
                if let Ok(Some(record)) = shared.vault.account().await {
                    shared.show_account(&record);
                }
                return Err(Idle::Revoked);
            }
            Err(error @ (VaultError::Keystore(_) | VaultError::SecretsMissing(_))) => {
                return Err(Idle::Waiting(format!("keystore locked: {error}")));
            }
            Err(error) => return Err(Idle::Waiting(error.to_string())),
        }
        let Some(unlocked) = shared.vault.unlocked() else { return Ok(None) };
        if unlocked.record.joining {
            // Linking goes on elsewhere, or was cut off; that flow says what becomes of it.
            let resumed = super::pairing::resume(shared, &unlocked).await;
            return resumed.map(|()| None).map_err(Idle::Waiting);
        }
        let record = &unlocked.record;
        shared.show_account(record);
        let client = remote::client(record, shared.settings.timeouts).map_err(Idle::waiting)?;
        let start =
            tasks::read_start(shared, Arc::clone(&unlocked)).await.map_err(Idle::waiting)?;
        for app in &start.apps {
            let held = quarantine::held(&shared.replica, &app.app).await.map_err(Idle::waiting)?;
            shared.report_quarantine(&app.app, held);
        }
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(Idle::waiting)?;
        let seed = u64::from_le_bytes(seed);
        let now = time(shared);
        let engine = Engine::new(shared.settings.engine.clone(), seed, start, now);
        let (sender, receiver) = mpsc::channel(64);
        Ok(Some(Session {
            shared: Arc::clone(shared),
            engine,
            client,
            signed_in: None,
            tasks: JoinSet::new(),
            answers: HashMap::new(),
            stream: None,
            stream_life: 0,
            notices: receiver,
            notify: sender,
        }))
    }
}

/// Syncing one account, from the daemon's start or the account's founding on.
struct Session {
    shared: Arc<Shared>,
    engine: Engine,
    client: SyncClient,
    /// The client with a token.
    signed_in: Option<SyncClient>,
    tasks: JoinSet<Event>,
    /// What to report if a task dies without an answer.
    answers: HashMap<Id, Event>,
    stream: Option<AbortHandle>,
    /// Counts streams, so that a late notice of an old one is known as such.
    stream_life: u64,
    notices: mpsc::Receiver<(u64, StreamNotice)>,
    notify: mpsc::Sender<(u64, StreamNotice)>,
}

/// What a stream's task tells.
#[derive(Debug)]
enum StreamNotice {
    Opened,
    Notice(Notice),
    Closed(Option<Failure>, Option<String>),
}

impl Session {
    async fn run(mut self, shutdown: &CancellationToken) -> End {
        let mut written = self.shared.replica.outbox_changed();
        // What was written since the start was read is known to the gate and to nobody else.
        written.mark_changed();
        let resumed = devices::resume(Arc::clone(&self.shared));
        self.spawn(
            async {
                resumed.await;
                Event::Nothing
            },
            Event::Nothing,
        );
        let clock = self.shared.clock.clone();
        let mut sleep = SleepWatch::new(clock, self.shared.settings.sleep_check);
        loop {
            // What fell due is dealt with and the next deadline is asked for by one reading of the
            // clock, so that none lies between the two.
            let now = self.now();
            self.engine.handle_timeout(now);
            self.carry_out();
            let timeout = self.engine.poll_timeout(now).map(|at| at.since(now));
            tokio::select! {
                () = shutdown.cancelled() => return self.stop(End::Shutdown).await,
                () = self.shared.founded.notified() => return self.stop(End::Again).await,
                () = self.shared.chain_changed.notified() => {
                    self.engine.handle_account_changed(self.now());
                }
                Some(done) = self.tasks.join_next_with_id() => {
                    let event = match done {
                        Ok((id, event)) => {
                            self.answers.remove(&id);
                            event
                        }
                        Err(error) => {
                            if !error.is_cancelled() {
                                tracing::error!(%error, "a sync task failed");
                            }
                            self.answers.remove(&error.id()).unwrap_or(Event::Nothing)
                        }
                    };
                    self.handle(event);
                }
                Some((life, notice)) = self.notices.recv() => {
                    if life == self.stream_life {
                        self.heard(notice);
                    }
                }
                changed = written.changed() => {
                    if changed.is_err() {
                        return self.stop(End::Shutdown).await;
                    }
                    self.local_commits();
                }
                () = sleep.woken() => {
                    tracing::info!("the computer slept: connecting anew");
                    self.engine.handle_resumed(self.now());
                }
                () = tokio::time::sleep(timeout.unwrap_or_default()), if timeout.is_some() => {}
            }
        }
    }

    fn now(&self) -> Time {
        time(&self.shared)
    }

    async fn stop(mut self, end: End) -> End {
        self.shared.gate.open(BTreeMap::new());
        if let Some(stream) = self.stream.take() {
            stream.abort();
        }
        // Store jobs finish by themselves; calls to the server are cut off, which is what the next
        // start settles by sending the same again.
        self.tasks.shutdown().await;
        end
    }

    fn local_commits(&mut self) {
        for (app, frozen) in self.shared.gate.take_written() {
            self.engine.handle_local_commit(self.now(), &app, frozen);
        }
    }

    /// Takes every order of the engine, opens the freeze gate where it allows it, and reports.
    fn carry_out(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            self.order(output);
        }
        let now = self.now();
        let open = self.engine.apps().into_iter().filter(|app| self.engine.may_freeze(now, app));
        let open = open.map(|app| {
            let testimony = self.engine.testimony(&app);
            (app, testimony)
        });
        self.shared.gate.open(open.collect());
        self.shared.report(&self.engine, now);
    }

    fn order(&mut self, output: Output) {
        let shared = Arc::clone(&self.shared);
        match output {
            Output::SignIn => match shared.vault.unlocked() {
                Some(unlocked) => {
                    let task = tasks::sign_in(shared, unlocked, self.client.clone());
                    self.spawn(task, Event::TokenFailed(Failure::Busy(None)));
                }
                None => self.handle(Event::TokenFailed(Failure::Busy(None))),
            },
            Output::OpenStream => self.open_stream(),
            Output::CloseStream => self.drop_stream(),
            Output::ReadAccount => {
                let (client, signed_in) = match &self.signed_in {
                    Some(client) => (client.clone(), true),
                    None => (self.client.clone(), false),
                };
                let task = tasks::read_account(shared, client, signed_in);
                self.spawn(task, Event::AccountFailed(Failure::Busy(None)));
            }
            Output::Pull(order) => {
                let failed = Event::PullFailed(order.clone(), Failure::Busy(None));
                let task = tasks::pull(shared, self.caller(), self.engine.own(), order);
                self.spawn(task, failed);
            }
            Output::Freeze(app) => {
                let testimony = self.engine.testimony(&app);
                let failed = Event::FreezeFailed(app.clone());
                self.spawn(tasks::freeze(shared, app, testimony), failed);
            }
            Output::SignManifest(app) => {
                let testimony = self.engine.testimony(&app);
                let failed = Event::FreezeFailed(app.clone());
                self.spawn(tasks::sign_manifest(shared, app, testimony), failed);
            }
            Output::Resign(app) => {
                let testimony = self.engine.testimony(&app);
                let failed = Event::FreezeFailed(app.clone());
                self.spawn(tasks::resign(shared, app, testimony), failed);
            }
            Output::Push(app, ticket) => {
                let failure = PushFailure::Failed(Failure::Busy(None));
                let failed = Event::PushFailed { app: app.clone(), ticket, failure };
                let task = tasks::push(shared, self.caller(), app, ticket);
                self.spawn(task, failed);
            }
            Output::NewIncarnation { cause, refill } => {
                let failed = Event::RenewFailed(cause, refill);
                self.spawn(tasks::renew(shared, cause, refill), failed);
            }
            Output::RetryQuarantine(app) => {
                let failed = Event::Retried(app.clone(), None);
                self.spawn(tasks::retry_quarantine(shared, app), failed);
            }
            Output::Alarms => shared.report_alarms(self.engine.alarms()),
        }
    }

    /// The client to call with; without a token the call fails as one whose token ran out.
    fn caller(&self) -> SyncClient {
        self.signed_in.as_ref().unwrap_or(&self.client).clone()
    }

    fn spawn(
        &mut self,
        task: impl std::future::Future<Output = Event> + Send + 'static,
        failed: Event,
    ) {
        let id = self.tasks.spawn(task).id();
        self.answers.insert(id, failed);
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Token(client, life) => {
                self.signed_in = Some(client);
                self.engine.handle_token(now, life);
            }
            Event::TokenFailed(failure) => self.engine.handle_token_failed(now, failure),
            Event::Account(facts) => self.engine.handle_account(now, facts),
            Event::AccountFailed(failure) => self.engine.handle_account_failed(now, failure),
            Event::Page(order, page, unlocked) => self.page(now, order, *page, unlocked),
            Event::PullFailed(order, failure) => {
                self.engine.handle_pull_failed(now, &order, failure);
            }
            Event::Stored(plan, quarantined) => {
                self.shared.set_trouble(None);
                self.shared.report_quarantine(&plan.app, quarantined);
                self.engine.handle_page_stored(now, *plan);
            }
            Event::Frozen { app, n, outbox } => {
                self.engine.handle_frozen(now, &app, n, outbox);
            }
            Event::FreezeFailed(app) => self.engine.handle_freeze_failed(now, &app),
            Event::Pushed { app, ticket, answer, outbox } => {
                self.shared.set_trouble(None);
                self.engine.handle_pushed(now, &app, ticket, answer, outbox);
            }
            Event::PushFailed { app, ticket, failure } => {
                self.engine.handle_push_failed(now, &app, ticket, failure);
            }
            Event::Renewed(start) => self.engine.handle_renewed(now, *start),
            Event::RenewFailed(cause, refill) => {
                self.engine.handle_renew_failed(now, cause, refill);
            }
            Event::Retried(app, retried) => self.engine.handle_retried(now, &app, retried),
            Event::Nothing => {}
        }
    }

    fn page(
        &mut self,
        now: Time,
        order: tidings_engine::PullOrder,
        page: super::page::OpenedPage,
        unlocked: Arc<Unlocked>,
    ) {
        if let Some(plan) = self.engine.handle_page(now, &order, &page.facts) {
            let failed = Event::PullFailed(order.clone(), Failure::Busy(None));
            let task = tasks::store(
                Arc::clone(&self.shared),
                unlocked,
                order,
                page,
                plan,
                self.engine.own(),
            );
            self.spawn(task, failed);
        }
    }

    fn open_stream(&mut self) {
        self.stream_life = self.stream_life.wrapping_add(1);
        let (life, notify) = (self.stream_life, self.notify.clone());
        let query = SubscribeQuery {
            app_id: "*".to_owned(),
            incarnation: Some(self.engine.own().incarnation),
        };
        let client = self.caller();
        let task = async move {
            follow(client, query, life, notify).await;
            Event::Nothing
        };
        let handle = self.tasks.spawn(task);
        self.stream = Some(handle);
    }

    /// Ends the stream's task; what it may still have said is not heard.
    fn drop_stream(&mut self) {
        self.stream_life = self.stream_life.wrapping_add(1);
        if let Some(stream) = self.stream.take() {
            stream.abort();
        }
    }

    fn heard(&mut self, notice: StreamNotice) {
        let now = self.now();
        // A server that says farewell waits for us to hang up.
        if let StreamNotice::Notice(Notice::Reauth { .. } | Notice::Closing { .. }) = &notice {
            self.drop_stream();
        }
        let engine = &mut self.engine;
        match notice {
            StreamNotice::Opened => {
                self.shared.set_trouble(None);
                engine.handle_stream_opened(now);
            }
            StreamNotice::Notice(notice) => {
                engine.handle_stream_byte(now);
                match notice {
                    Notice::Changed { channel: Channel::App(app) } => {
                        engine.handle_changed(now, &app);
                    }
                    Notice::Changed { channel: Channel::Account } => {
                        engine.handle_account_changed(now);
                    }
                    Notice::Alive => {}
                    Notice::Retry(wait) => engine.handle_stream_retry(wait),
                    Notice::Reauth { reason: ReauthReason::DeviceRevoked } => {
                        engine.handle_stream_closed(now, Some(Failure::Unlinked));
                        self.signed_in = None;
                    }
                    Notice::Reauth { .. } => engine.handle_stream_reauth(now),
                    Notice::Closing { retry } => {
                        self.shared.set_trouble(Some("the server stops for a while".to_owned()));
                        engine.handle_stream_closed(now, Some(Failure::Busy(retry)));
                    }
                }
            }
            StreamNotice::Closed(failure, why) => {
                self.shared.set_trouble(why);
                engine.handle_stream_closed(now, failure);
            }
        }
    }
}

/// Opens the stream and tells everything it says.
async fn follow(
    client: SyncClient,
    query: SubscribeQuery,
    life: u64,
    notify: mpsc::Sender<(u64, StreamNotice)>,
) {
    let closed = match client.subscribe(&query).await {
        Ok(mut stream) => {
            if notify.send((life, StreamNotice::Opened)).await.is_err() {
                return;
            }
            while let Some(notice) = stream.next().await {
                if notify.send((life, StreamNotice::Notice(notice))).await.is_err() {
                    return;
                }
            }
            ended(&stream)
        }
        Err(error) => {
            tracing::debug!(%error, "the stream did not open");
            StreamNotice::Closed(Some(failure(&error)), Some(error.to_string()))
        }
    };
    // Nobody listens any more: the session is over.
    let _ = notify.send((life, closed)).await;
}

fn ended(stream: &NotifyStream) -> StreamNotice {
    match stream.end() {
        Some(StreamEnd::Broken(why)) => {
            StreamNotice::Closed(None, Some(format!("the connection broke: {why}")))
        }
        Some(StreamEnd::Silent) => {
            let why = "the server fell silent".to_owned();
            StreamNotice::Closed(Some(Failure::Unreachable), Some(why))
        }
        Some(StreamEnd::Damaged(why)) => StreamNotice::Closed(Some(Failure::Refused), {
            tracing::warn!(why, "the stream sent what no server sends");
            None
        }),
        Some(StreamEnd::Closed) | None => StreamNotice::Closed(None, None),
    }
}

/// The engine's time: the time that this computer was awake.
fn time(shared: &Shared) -> Time {
    let awake = shared.clock.awake().as_millis();
    Time::from_millis(u64::try_from(awake).unwrap_or(u64::MAX))
}
