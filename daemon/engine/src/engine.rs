//! The engine: what happened goes in, what to do comes out.

mod account;
mod network;
mod pull;
mod pump;
mod push;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tidings_proof::{LaneSeq, Replica};
use tidings_wire::{AppId, ManifestNumber};

use crate::app::AppSync;
use crate::backoff::Backoff;
use crate::config::EngineConfig;
use crate::failure::Failure;
use crate::jitter::Jitter;
use crate::link::{LinkState, Stream};
use crate::output::{Alarm, Output, RenewCause};
use crate::start::EngineStart;
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
    /// A new incarnation that could not be stored and is tried again once its wait is over.
    renew_due: Option<(RenewCause, bool)>,
    /// Waits between new incarnations, so that no server can make this replica take one after the
    /// other.
    renew_backoff: Backoff,
    /// What the server dropped of what it had taken, and was given again.
    dropped: Option<Dropped>,
    next_poll: Time,
    alarms: BTreeSet<Alarm>,
    outputs: VecDeque<Output>,
}

/// Everything was pushed again because the server had dropped some of it. Until the next poll
/// that is not done once more, and the person is told: the new pushes leave no trace of it.
#[derive(Debug)]
struct Dropped {
    until: Time,
    alarms: BTreeSet<Alarm>,
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
    /// The stream is open, or has just ended and comes back.
    Online,
    /// Calls are answered, but something on the way holds the stream's bytes back.
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
            renew_due: None,
            renew_backoff: Backoff::default(),
            dropped: None,
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
        // What is said of the link changes then.
        times.extend(self.link.between_until(&self.config).filter(|at| *at > now));
        if self.renew_due.is_some() {
            times.extend(self.renew_backoff.until(now));
        }
        if self.link.blocked(now) {
            return times.into_iter().min();
        }
        if !self.token.asked {
            times.extend(self.token.backoff.until(now));
            times.extend(self.token_renewal().filter(|at| *at > now));
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
