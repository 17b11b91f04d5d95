//! The engine: what happened goes in, what to do comes out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tidings_proof::{LaneSeq, Replica};
use tidings_wire::{AppId, ManifestNumber};

use crate::app::{AppSync, Follow, Pull};
use crate::backoff::Backoff;
use crate::config::EngineConfig;
use crate::facts::{AccountFacts, ChainVerdict, PageFacts, PushAnswer};
use crate::failure::{Failure, PushFailure};
use crate::jitter::Jitter;
use crate::link::{LinkState, Stream};
use crate::output::{Alarm, Output, PullOrder, Purpose, RenewCause};
use crate::page;
use crate::plan::PagePlan;
use crate::push::Push;
use crate::start::{AppRecord, AppStart, EngineStart};
use crate::time::Time;

/// The state machine of one account.
///
/// Tell it what happened through the `handle_*` methods, each with the present time, which must
/// never run back. After each of them, take orders from [`Engine::poll_output`] until there are
/// none, then wait for the next thing to happen or for [`Engine::poll_timeout`] to pass and call
/// [`Engine::handle_timeout`]. An order is answered exactly once by the method that its
/// documentation names; nothing is ordered twice at the same time.
///
/// The engine keeps no state that the driver did not store first: a page counts once
/// [`Engine::handle_page_stored`] was called, a push once it was frozen.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    jitter: Jitter,
    own: Replica,
    link: LinkState,
    token: Token,
    account: Account,
    apps: BTreeMap<AppId, AppSync>,
    /// The app that was served last, so that none starves.
    turn: Option<AppId>,
    tickets: u64,
    in_flight: usize,
    renewing: bool,
    next_poll: Time,
    alarms: BTreeSet<Alarm>,
    outputs: VecDeque<Output>,
}

/// The bearer token.
#[derive(Debug, Default)]
struct Token {
    expires: Option<Time>,
    asked: bool,
    backoff: Backoff,
    /// The server says that this device was unlinked.
    unlinked: bool,
}

/// Reading of chain, key ring and app list.
#[derive(Debug, Default)]
struct Account {
    due: bool,
    asked: bool,
    again: bool,
    backoff: Backoff,
    apps: BTreeSet<AppId>,
    alarms: BTreeSet<Alarm>,
    /// When it was last read.
    read: Option<Time>,
}

/// How the device stands to its server, for status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The server cannot be reached; it is tried again at that time.
    Offline(Option<Time>),
    /// A connection is being made.
    Connecting,
    /// The stream is open.
    Online,
    /// The stream is open, but something on the way holds its bytes back.
    Buffered,
    /// The server says that this device was unlinked.
    Unlinked,
}

impl Engine {
    /// An engine over what was stored. `seed` decides the jitter of every wait.
    pub fn new(config: EngineConfig, seed: u64, start: EngineStart, now: Time) -> Self {
        let next_poll = now.after(config.poll);
        let mut engine = Self {
            config,
            jitter: Jitter::new(seed),
            own: start.own,
            link: LinkState::new(),
            token: Token::default(),
            account: Account { due: true, ..Account::default() },
            apps: BTreeMap::new(),
            turn: None,
            tickets: 0,
            in_flight: 0,
            renewing: false,
            next_poll,
            alarms: BTreeSet::new(),
            outputs: VecDeque::new(),
        };
        engine.restore(start, now);
        engine.pump(now);
        engine
    }

    fn restore(&mut self, start: EngineStart, now: Time) {
        self.own = start.own;
        self.apps = start
            .apps
            .into_iter()
            .map(|start| (start.app.clone(), AppSync::new(start, now, &self.config)))
            .collect();
    }

    // ---- what to do -------------------------------------------------------------------------

    /// The next order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Engine::handle_timeout`] wants to be called, at the latest.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        let mut times = vec![self.next_poll];
        times.extend(self.link.deadline(&self.config));
        times.extend(self.link.first_byte_deadline(&self.config).filter(|at| *at > now));
        if self.link.stream == Stream::Down {
            times.extend(self.link.backoff.until(now));
        }
        if self.link.blocked(now) {
            return times.into_iter().min();
        }
        if !self.token.asked {
            times.extend(self.token.backoff.until(now));
            times.extend(self.token_renewal());
        }
        if self.account.due && !self.account.asked {
            times.extend(self.account.backoff.until(now));
        }
        if self.has_token(now) {
            // What is due now but waits for a free slot is started when a slot frees.
            let deadlines = self.apps.values().filter_map(|app| app.deadline(now));
            times.extend(deadlines.filter(|at| *at > now));
        }
        times.into_iter().min()
    }

    // ---- time and the network ---------------------------------------------------------------

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.link.dead(now, &self.config) {
            self.outputs.push_back(Output::CloseStream);
            self.link.closed(now, None, &self.config, &mut self.jitter);
        }
        if self.next_poll <= now {
            self.want_everything(now);
        }
        self.pump(now);
    }

    /// The machine woke from sleep, or its network changed: whatever stood may be dead.
    pub fn handle_resumed(&mut self, now: Time) {
        if self.link.stream != Stream::Down {
            self.outputs.push_back(Output::CloseStream);
            self.link.closed(now, None, &self.config, &mut self.jitter);
        }
        self.link.backoff.clear();
        self.hurry();
        self.want_everything(now);
        self.pump(now);
    }

    /// The stream stands: its answer has begun.
    pub fn handle_stream_opened(&mut self, now: Time) {
        if self.link.stream != Stream::Opening {
            return;
        }
        self.link.opened(now);
        self.hurry();
        self.want_everything(now);
        self.pump(now);
    }

    /// Bytes came on the stream, be it only a comment.
    pub fn handle_stream_byte(&mut self, now: Time) {
        self.link.byte(now);
    }

    /// The stream asks for a shortest wait before the next opening.
    pub fn handle_stream_retry(&mut self, wait: Duration) {
        self.link.retry(wait, &self.config);
    }

    /// The stream ended, or did not open. `failure` is none for a plain end.
    pub fn handle_stream_closed(&mut self, now: Time, failure: Option<Failure>) {
        if self.link.stream == Stream::Down {
            return;
        }
        self.note(now, failure);
        self.link.closed(now, failure, &self.config, &mut self.jitter);
        self.pump(now);
    }

    /// The stream says that the token's time is over; it opens again with a new one at once.
    pub fn handle_stream_reauth(&mut self, now: Time) {
        self.token.expires = None;
        self.link.closed(now, None, &self.config, &mut self.jitter);
        self.link.backoff.hurry();
        self.pump(now);
    }

    /// `changed` came for an app.
    pub fn handle_changed(&mut self, now: Time, app: &AppId) {
        match self.apps.get_mut(app) {
            Some(app) => app.want_pull(),
            None => self.want_account(),
        }
        self.pump(now);
    }

    /// `changed` came for the account itself.
    pub fn handle_account_changed(&mut self, now: Time) {
        self.want_account();
        self.pump(now);
    }

    // ---- signing in and the account ---------------------------------------------------------

    /// A token, valid for `life` from now.
    pub fn handle_token(&mut self, now: Time, life: Duration) {
        self.token.asked = false;
        self.token.unlinked = false;
        self.token.backoff.clear();
        // A life shorter than the margin would renew for ever: use most of it instead.
        let margin = self.config.token_margin.min(life / 4);
        self.token.expires = Some(now.after(life.saturating_sub(margin)));
        self.pump(now);
    }

    /// No token.
    pub fn handle_token_failed(&mut self, now: Time, failure: Failure) {
        self.token.asked = false;
        self.token.expires = None;
        let failure = if failure == Failure::Token { Failure::Refused } else { failure };
        self.note(now, Some(failure));
        let asked = wait_asked(failure);
        self.token.backoff.fail(now, &self.config, &mut self.jitter, asked);
        self.pump(now);
    }

    /// Chain, key ring and app list were read, and what is new of them was stored.
    pub fn handle_account(&mut self, now: Time, facts: AccountFacts) {
        self.account.asked = false;
        self.account.due = std::mem::take(&mut self.account.again);
        self.account.backoff.clear();
        self.account.read = Some(now);
        self.account.alarms.clear();
        if facts.chain == ChainVerdict::Fork {
            self.account.alarms.insert(Alarm::ChainFork);
        }
        if facts.chain_shorter {
            self.account.alarms.insert(Alarm::ChainRollback);
        }
        for app in facts.apps.difference(&self.account.apps) {
            if !self.apps.contains_key(app) {
                let start = AppStart::new(app.clone());
                self.apps.insert(app.clone(), AppSync::new(start, now, &self.config));
            }
        }
        self.account.apps = facts.apps;
        for app in self.apps.values_mut() {
            if std::mem::take(&mut app.wants_account) {
                app.account_read = true;
            }
            if app.push == Push::Stale {
                app.push = Push::Resigning;
                self.outputs.push_back(Output::Resign(app.app.clone()));
            }
        }
        if facts.changed {
            self.outputs.push_back(Output::RetryQuarantine);
        }
        self.pump(now);
    }

    /// The account could not be read.
    pub fn handle_account_failed(&mut self, now: Time, failure: Failure) {
        self.account.asked = false;
        self.account.due = true;
        self.note(now, Some(failure));
        let asked = wait_asked(failure);
        self.account.backoff.fail(now, &self.config, &mut self.jitter, asked);
        self.pump(now);
    }

    // ---- pulling ----------------------------------------------------------------------------

    /// A page came and its entries were verified and opened. Gives what to store of it; none if
    /// it does not count, or if chain and keys must be read first.
    pub fn handle_page(
        &mut self,
        now: Time,
        order: &PullOrder,
        facts: &PageFacts,
    ) -> Option<PagePlan> {
        let staged_limit = self.config.staged_bytes;
        let app = self.apps.get_mut(&order.app)?;
        if app.pull != Pull::Asked(order.ticket, order.purpose) {
            return None;
        }
        let ahead = |chain: &ChainVerdict| *chain == ChainVerdict::Ahead;
        let unknown = ahead(&facts.chain)
            || !facts.epoch_known
            || facts.manifests.iter().any(|manifest| ahead(&manifest.chain));
        if unknown && !app.account_read {
            app.pull = Pull::Idle;
            app.due = true;
            app.wants_account = true;
            self.freed();
            self.want_account();
            self.pump(now);
            return None;
        }
        let forked = facts.chain == ChainVerdict::Fork
            || facts.manifests.iter().any(|manifest| manifest.chain == ChainVerdict::Fork);
        if forked {
            self.account.alarms.insert(Alarm::ChainFork);
        }
        let other_life = app.record.generation.is_some_and(|known| known != facts.generation);
        let plan = if facts.reset.is_some() || other_life {
            if order.purpose != Purpose::Next {
                // The next ordinary pull meets the same reset and deals with it.
                app.pull = Pull::Idle;
                app.refetch = None;
                app.due = true;
                self.freed();
                self.pump(now);
                return None;
            }
            page::restart(app, self.own, facts)
        } else {
            page::judge(app, self.own, staged_limit, order.purpose, facts)
        };
        app.pull = Pull::Storing(order.ticket);
        Some(plan)
    }

    /// A page was stored, rows, cursor and all.
    pub fn handle_page_stored(&mut self, now: Time, plan: PagePlan) {
        self.freed();
        let apps: BTreeSet<AppId> =
            self.account.apps.iter().chain(self.apps.keys()).cloned().collect();
        let Some(app) = self.apps.get_mut(&plan.app) else { return };
        if !matches!(app.pull, Pull::Storing(_)) {
            return;
        }
        let Follow { renew } = app.stored(now, &self.config, self.own, &apps, plan);
        if let Some((cause, refill)) = renew {
            self.renew(cause, refill);
        }
        self.pump(now);
    }

    /// A pull failed, or its page could not be stored.
    pub fn handle_pull_failed(&mut self, now: Time, order: &PullOrder, failure: Failure) {
        self.freed();
        let mut failed = false;
        if let Some(app) = self.apps.get_mut(&order.app) {
            let current = match app.pull {
                Pull::Asked(ticket, _) | Pull::Storing(ticket) => ticket == order.ticket,
                Pull::Idle => false,
            };
            if current {
                app.pull = Pull::Idle;
                app.due |= order.purpose == Purpose::Next || std::mem::take(&mut app.again);
                let asked = wait_asked(failure);
                // A token that ran out is renewed first; only a second refusal in a row waits.
                if failure != Failure::Token || app.pull_backoff.failures() > 0 {
                    app.pull_backoff.fail(now, &self.config, &mut self.jitter, asked);
                } else {
                    app.pull_backoff.fail(now, &instant(&self.config), &mut self.jitter, None);
                }
                failed = true;
            }
        }
        if failed {
            self.note(now, Some(failure));
        }
        self.pump(now);
    }

    // ---- pushing ----------------------------------------------------------------------------

    /// A local write was committed; `frozen` is the number of the manifest if it was frozen in the
    /// same transaction.
    pub fn handle_local_commit(
        &mut self,
        now: Time,
        app: &AppId,
        frozen: Option<ManifestNumber>,
    ) {
        let config = &self.config;
        let app = self
            .apps
            .entry(app.clone())
            .or_insert_with(|| AppSync::new(AppStart::new(app.clone()), now, config));
        match frozen {
            Some(n) => {
                app.book.own_n = app.book.own_n.max(n);
                if app.push == Push::Idle {
                    app.push = Push::Ready;
                }
            }
            None => app.outbox = true,
        }
        self.pump(now);
    }

    /// A push was frozen and stored, or signed anew; `n` is the number of its manifest. None if
    /// there was nothing to freeze. `outbox` says whether unfrozen writes are left.
    pub fn handle_frozen(
        &mut self,
        now: Time,
        app: &AppId,
        n: Option<ManifestNumber>,
        outbox: bool,
    ) {
        if let Some(app) = self.apps.get_mut(app) {
            app.outbox = outbox;
            if let Some(n) = n {
                app.book.own_n = app.book.own_n.max(n);
            }
            if matches!(app.push, Push::Freezing | Push::Resigning | Push::Ready | Push::Idle) {
                app.push = if n.is_some() { Push::Ready } else { Push::Idle };
            }
        }
        self.pump(now);
    }

    /// Freezing or signing failed: keys are locked or the disk does not take it.
    pub fn handle_freeze_failed(&mut self, now: Time, app: &AppId) {
        if let Some(app) = self.apps.get_mut(app) {
            app.push = if app.push == Push::Resigning { Push::Stale } else { Push::Idle };
            app.push_backoff.fail(now, &self.config, &mut self.jitter, None);
            if app.push == Push::Stale {
                self.want_account();
            }
        }
        self.pump(now);
    }

    /// The server took the push, and its entries have left the outbox.
    pub fn handle_pushed(
        &mut self,
        now: Time,
        app: &AppId,
        ticket: u64,
        answer: PushAnswer,
        outbox: bool,
    ) {
        self.freed();
        let mut renew = false;
        if let Some(app) = self.apps.get_mut(app)
            && app.push == Push::Sending
            && app.push_ticket == ticket
        {
            app.push = Push::Idle;
            app.push_backoff.clear();
            app.outbox = outbox;
            app.bare.set(now.after(self.config.manifest_every));
            if let Some(mark) = answer.manifest {
                renew = mark.n > app.book.own_n;
                app.book.own_acked = app.book.own_acked.max(mark.n.min(app.book.own_n));
            }
            if app.record.generation.is_some_and(|known| known != answer.generation) {
                app.want_pull();
            }
        }
        if renew {
            self.renew(RenewCause::Copied, false);
        }
        if answer.chain == ChainVerdict::Ahead {
            self.want_account();
        }
        self.pump(now);
    }

    /// The server did not take the push.
    pub fn handle_push_failed(
        &mut self,
        now: Time,
        app: &AppId,
        ticket: u64,
        failure: PushFailure,
    ) {
        self.freed();
        let Some(app) = self.apps.get_mut(app) else { return };
        if app.push != Push::Sending || app.push_ticket != ticket {
            return self.pump(now);
        }
        app.push = Push::Ready;
        match failure {
            PushFailure::Failed(failure) => {
                let asked = wait_asked(failure);
                if failure != Failure::Token || app.push_backoff.failures() > 0 {
                    app.push_backoff.fail(now, &self.config, &mut self.jitter, asked);
                } else {
                    app.push_backoff.fail(now, &instant(&self.config), &mut self.jitter, None);
                }
                self.note(now, Some(failure));
            }
            PushFailure::ChainMoved => {
                app.push = Push::Stale;
                // A second refusal in a row waits, so that no server can make this spin.
                if app.push_backoff.failures() > 0 {
                    app.push_backoff.fail(now, &self.config, &mut self.jitter, None);
                } else {
                    app.push_backoff.fail(now, &instant(&self.config), &mut self.jitter, None);
                }
                self.want_account();
            }
            PushFailure::ManifestBehind => {
                app.push = Push::Resigning;
                app.push_backoff.fail(now, &self.config, &mut self.jitter, None);
                let app = app.app.clone();
                self.outputs.push_back(Output::Resign(app));
            }
            PushFailure::LaneFork => self.renew(RenewCause::Copied, false),
            PushFailure::LaneBehind => self.renew(RenewCause::Behind, false),
            PushFailure::LaneGap => self.renew(RenewCause::ServerLost, true),
            PushFailure::BelowFloor => {
                app.push_backoff.fail(now, &self.config, &mut self.jitter, Some(self.config.poll));
            }
        }
        self.pump(now);
    }

    /// The replica has a new incarnation; `start` is what is stored now.
    pub fn handle_renewed(&mut self, now: Time, start: EngineStart) {
        self.renewing = false;
        let known: Vec<AppId> = self.apps.keys().cloned().collect();
        self.restore(start, now);
        for app in known {
            let start = AppStart::new(app.clone());
            self.apps.entry(app).or_insert_with(|| AppSync::new(start, now, &self.config));
        }
        // Answers to what was ordered before carry old tickets; their slots are free.
        self.in_flight = 0;
        self.pump(now);
    }

    /// The new incarnation could not be stored.
    pub fn handle_renew_failed(&mut self, now: Time, cause: RenewCause, refill: bool) {
        self.renewing = false;
        self.link.closed(now, None, &self.config, &mut self.jitter);
        self.outputs.push_back(Output::CloseStream);
        self.renew(cause, refill);
    }

    // ---- looking in -------------------------------------------------------------------------

    /// This replica.
    pub fn own(&self) -> Replica {
        self.own
    }

    /// How the device stands to its server.
    pub fn link(&self, now: Time) -> Link {
        if self.token.unlinked {
            return Link::Unlinked;
        }
        match self.link.stream {
            Stream::Open { .. } if self.link.is_buffered(now, &self.config) => Link::Buffered,
            Stream::Open { .. } => Link::Online,
            Stream::Down if self.link.blocked(now) || self.link.unreachable => {
                Link::Offline(self.link.backoff.until(now))
            }
            _ => Link::Connecting,
        }
    }

    /// Everything that the person must learn.
    pub fn alarms(&self) -> &BTreeSet<Alarm> {
        &self.alarms
    }

    /// Every app that is known here or on the server.
    pub fn apps(&self) -> BTreeSet<AppId> {
        self.apps.keys().chain(&self.account.apps).cloned().collect()
    }

    /// How far an app was pulled.
    pub fn record(&self, app: &AppId) -> Option<&AppRecord> {
        self.apps.get(app).map(|app| &app.record)
    }

    /// Everything that the server showed of an app is here, and nothing is known to be missing.
    pub fn is_whole(&self, app: &AppId) -> bool {
        self.apps.get(app).is_some_and(AppSync::is_whole)
    }

    /// When the app's pages last reached the server's head.
    pub fn proved(&self, app: &AppId) -> Option<Time> {
        self.apps.get(app).and_then(|app| app.proved)
    }

    /// When chain, key ring and app list were last read.
    pub fn account_read(&self) -> Option<Time> {
        self.account.read
    }

    /// Whether a local write may be frozen in its own transaction: nothing of the app is frozen,
    /// the stream stands and the account is current.
    pub fn may_freeze(&self, now: Time, app: &AppId) -> bool {
        let ready = self.link.is_open()
            && self.has_token(now)
            && !self.renewing
            && !self.account.due
            && !self.account.asked;
        ready
            && self.apps.get(app).is_some_and(|app| {
                app.push == Push::Idle && app.push_backoff.ready(now) && !app.record.refill
            })
    }

    /// What a manifest of ours says of others.
    pub fn testimony(&self, app: &AppId) -> Testimony {
        let known = self.apps.get(app);
        Testimony {
            seen: known.map(|app| app.book.seen(self.own, &app.record.lost)).unwrap_or_default(),
            apps: self.apps(),
            wants: known.map(|app| app.wants(MOST_WANTS)).unwrap_or_default(),
        }
    }

    // ---- deciding ---------------------------------------------------------------------------

    /// Starts whatever is due and allowed.
    fn pump(&mut self, now: Time) {
        self.note_alarms();
        if self.link.blocked(now) || self.renewing {
            return;
        }
        if !self.token.asked
            && self.token_renewal().is_none_or(|at| at <= now)
            && self.token.backoff.ready(now)
        {
            self.token.asked = true;
            self.outputs.push_back(Output::SignIn);
        }
        // The chain needs no token, and only the chain can say that a device was unlinked.
        if self.has_token(now) || self.token.unlinked {
            self.serve_account(now);
        }
        if !self.has_token(now) {
            return;
        }
        if self.link.stream == Stream::Down && self.link.backoff.ready(now) {
            self.link.stream = Stream::Opening;
            self.outputs.push_back(Output::OpenStream);
        }
        self.serve_apps(now);
    }

    fn serve_account(&mut self, now: Time) {
        if self.account.due && !self.account.asked && self.account.backoff.ready(now) {
            (self.account.due, self.account.asked) = (false, true);
            self.outputs.push_back(Output::ReadAccount);
        }
    }

    /// Orders pulls and pushes, each app in turn, while slots are free.
    fn serve_apps(&mut self, now: Time) {
        let mut names: Vec<AppId> = self.apps.keys().cloned().collect();
        if let Some(turn) = &self.turn {
            let after = names.partition_point(|name| name <= turn);
            names.rotate_left(after);
        }
        for name in names {
            self.serve_pull(now, &name);
            self.serve_push(now, &name);
        }
    }

    fn serve_pull(&mut self, now: Time, name: &AppId) {
        if self.in_flight >= self.config.parallel {
            return;
        }
        let Some(app) = self.apps.get_mut(name) else { return };
        let Some(purpose) = app.next_pull(now) else { return };
        self.tickets = self.tickets.wrapping_add(1);
        let (cursor, tags) = match purpose {
            Purpose::Next => {
                app.due = false;
                (app.record.cursor.clone(), Vec::new())
            }
            Purpose::Refetch(lane) => {
                (app.refetch.as_ref().map(|(_, cursor)| cursor.clone()), vec![lane.tag])
            }
        };
        app.pull = Pull::Asked(self.tickets, purpose);
        let order = PullOrder {
            app: name.clone(),
            ticket: self.tickets,
            purpose,
            cursor,
            tags,
            limit: self.config.page_entries,
            known: app.book.marks(),
        };
        self.in_flight = self.in_flight.saturating_add(1);
        self.turn = Some(name.clone());
        self.outputs.push_back(Output::Pull(order));
    }

    fn serve_push(&mut self, now: Time, name: &AppId) {
        let Some(app) = self.apps.get_mut(name) else { return };
        if !app.push_backoff.ready(now) {
            return;
        }
        match app.push {
            Push::Idle if app.outbox => {
                app.push = Push::Freezing;
                self.outputs.push_back(Output::Freeze(name.clone()));
            }
            Push::Idle if app.bare.at().is_some_and(|at| at <= now) => {
                app.bare.set(now.after(self.config.manifest_every));
                app.push = Push::Freezing;
                self.outputs.push_back(Output::SignManifest(name.clone()));
            }
            Push::Ready if self.in_flight < self.config.parallel => {
                self.tickets = self.tickets.wrapping_add(1);
                app.push = Push::Sending;
                app.push_ticket = self.tickets;
                self.in_flight = self.in_flight.saturating_add(1);
                self.turn = Some(name.clone());
                self.outputs.push_back(Output::Push(name.clone(), self.tickets));
            }
            _ => {}
        }
    }

    fn renew(&mut self, cause: RenewCause, refill: bool) {
        if !self.renewing {
            self.renewing = true;
            self.outputs.push_back(Output::NewIncarnation { cause, refill });
        }
        for app in self.apps.values_mut() {
            app.push = Push::Renewing;
        }
    }

    /// Draws what follows from a failure for everything else.
    fn note(&mut self, now: Time, failure: Option<Failure>) {
        match failure {
            Some(Failure::Unreachable) => {
                self.link.unreached(now, &self.config, &mut self.jitter);
            }
            Some(Failure::Token) => self.token.expires = None,
            Some(Failure::Unlinked) => {
                self.token.expires = None;
                self.token.unlinked = true;
                self.token.backoff.fail(now, &self.config, &mut self.jitter, None);
                self.want_account();
            }
            Some(Failure::Busy(_) | Failure::Refused) | None => {}
        }
    }

    fn want_account(&mut self) {
        if self.account.asked {
            self.account.again = true;
        } else {
            self.account.due = true;
        }
    }

    fn want_everything(&mut self, now: Time) {
        let buffered = self.link.is_buffered(now, &self.config);
        let wait = if buffered { self.config.poll_buffered } else { self.config.poll };
        self.next_poll = now.after(wait);
        self.want_account();
        for app in self.apps.values_mut() {
            app.want_pull();
            app.retry_withheld(now);
        }
    }

    fn hurry(&mut self) {
        self.token.backoff.hurry();
        self.account.backoff.hurry();
        for app in self.apps.values_mut() {
            app.pull_backoff.hurry();
            app.push_backoff.hurry();
        }
    }

    fn freed(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    fn has_token(&self, now: Time) -> bool {
        self.token.expires.is_some_and(|at| at > now)
    }

    /// When the token is to be renewed; none if there is none.
    fn token_renewal(&self) -> Option<Time> {
        self.token.expires
    }

    fn note_alarms(&mut self) {
        let mut alarms = self.account.alarms.clone();
        for app in self.apps.values() {
            alarms.extend(app.alarms(&self.config));
        }
        if alarms != self.alarms {
            self.alarms = alarms;
            self.outputs.push_back(Output::Alarms);
        }
    }
}

/// What a manifest of ours says of others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Testimony {
    /// The newest manifest that was accepted of each other replica.
    pub seen: BTreeMap<Replica, ManifestNumber>,
    /// The apps that are known.
    pub apps: BTreeSet<AppId>,
    /// Blobs that are missing or did not open.
    pub wants: BTreeSet<LaneSeq>,
}

/// Most blobs that a manifest of ours asks for.
const MOST_WANTS: usize = 1_000;

/// A configuration whose waits are nothing: counts a failure without waiting for it.
fn instant(config: &EngineConfig) -> EngineConfig {
    EngineConfig { backoff_first: Duration::ZERO, ..config.clone() }
}

fn wait_asked(failure: Failure) -> Option<Duration> {
    match failure {
        Failure::Busy(asked) => asked,
        _ => None,
    }
}
