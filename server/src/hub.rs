//! Who listens to which account, and the signals on their way to them.
//!
//! One channel per (account, app) and one for the account itself. A signal says that something
//! changed and nothing else; it is published only after the change is durable and acknowledged.
//! A [`Subscription`] is polled for its next signal by whatever carries the stream, today an HTTP
//! body; it holds no socket, no timer and no task, so that a stream may also be parked.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tidings_proof::Replica;
use tidings_wire::{AccountId, DeviceId, Incarnation};

/// The name of a channel: an app id, or `_account`.
pub type Channel = Arc<str>;

/// What a stream listens to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// One channel.
    One(Channel),
    /// Every channel of the account.
    All,
}

impl Selection {
    fn name(&self) -> Channel {
        match self {
            Self::One(channel) => channel.clone(),
            Self::All => "*".into(),
        }
    }

    fn takes(&self, channel: &str) -> bool {
        match self {
            Self::One(own) => **own == *channel,
            Self::All => true,
        }
    }
}

/// Who listens.
#[derive(Debug, Clone)]
pub struct Listener {
    /// The account.
    pub account: AccountId,
    /// The device; what it changes itself is left out.
    pub device: DeviceId,
    /// The replica, if it named itself: then only what this replica changes is left out.
    pub incarnation: Option<Incarnation>,
    /// To what.
    pub selection: Selection,
}

impl Listener {
    fn is(&self, pusher: Option<Replica>) -> bool {
        pusher.is_some_and(|pusher| {
            let same = |own: Incarnation| own == pusher.incarnation;
            self.device == pusher.device && self.incarnation.is_none_or(same)
        })
    }
}

/// What a stream is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// Something changed in this channel.
    Changed(Channel),
    /// Nothing more will come.
    End(End),
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The device was revoked.
    Revoked,
    /// The account is gone or suspended.
    AccountGone,
    /// The server stops.
    Closing,
}

/// Why a stream cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// As many streams of this app are open as may be.
    #[error("{0} streams of this app are open, the most there may be")]
    AppLimit(usize),
    /// As many streams of the account are open as may be.
    #[error("{0} streams of this account are open, the most there may be")]
    AccountLimit(usize),
    /// The server stops.
    #[error("the server is stopping")]
    Closing,
}

/// How many streams, and how many signals each keeps.
#[derive(Debug, Clone, Copy)]
pub struct HubLimits {
    /// Most streams of one (account, channel).
    pub per_channel: usize,
    /// Most streams of one account.
    pub per_account: usize,
    /// Signals kept for a slow reader before they become one per channel.
    pub pending: usize,
}

/// All open streams.
#[derive(Debug)]
pub struct Hub {
    limits: HubLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    accounts: HashMap<AccountId, Account>,
    next: u64,
    open: usize,
    closing: bool,
}

#[derive(Debug, Default)]
struct Account {
    streams: HashMap<u64, Arc<Stream>>,
    per_channel: HashMap<Channel, usize>,
}

#[derive(Debug)]
struct Stream {
    listener: Listener,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    pending: VecDeque<Channel>,
    end: Option<End>,
    waker: Option<Waker>,
}

impl Hub {
    /// A hub without streams.
    pub fn new(limits: HubLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    /// Opens a stream. From this moment on it misses nothing.
    ///
    /// # Errors
    /// [`SubscribeError`].
    pub fn subscribe(self: &Arc<Self>, listener: Listener) -> Result<Subscription, SubscribeError> {
        let mut state = self.lock();
        if state.closing {
            return Err(SubscribeError::Closing);
        }
        let id = state.next;
        let account = state.accounts.entry(listener.account).or_default();
        let name = listener.selection.name();
        if account.streams.len() >= self.limits.per_account {
            return Err(SubscribeError::AccountLimit(self.limits.per_account));
        }
        let on_channel = account.per_channel.entry(name).or_default();
        if *on_channel >= self.limits.per_channel {
            return Err(SubscribeError::AppLimit(self.limits.per_channel));
        }
        *on_channel += 1;
        let stream = Arc::new(Stream { listener, queue: Mutex::default() });
        account.streams.insert(id, stream.clone());
        state.next += 1;
        state.open += 1;
        Ok(Subscription { hub: self.clone(), id, stream })
    }

    /// Tells everybody on a channel but the pusher that something changed.
    pub fn publish(&self, account: AccountId, channel: &str, pusher: Option<Replica>) {
        let channel: Channel = channel.into();
        for stream in self.streams(account) {
            if stream.listener.selection.takes(&channel) && !stream.listener.is(pusher) {
                stream.push(channel.clone(), self.limits.pending);
            }
        }
    }

    /// Ends the streams of devices of an account.
    pub fn end_devices(&self, account: AccountId, devices: impl Fn(DeviceId) -> bool, end: End) {
        for stream in self.streams(account) {
            if devices(stream.listener.device) {
                stream.end(end);
            }
        }
    }

    /// Ends every stream and takes no new ones.
    pub fn close(&self) {
        let streams: Vec<_> = {
            let mut state = self.lock();
            state.closing = true;
            state.accounts.values().flat_map(|account| account.streams.values().cloned()).collect()
        };
        streams.iter().for_each(|stream| stream.end(End::Closing));
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        self.lock().open
    }

    fn streams(&self, account: AccountId) -> Vec<Arc<Stream>> {
        let state = self.lock();
        let account = state.accounts.get(&account);
        account.map_or_else(Vec::new, |account| account.streams.values().cloned().collect())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, channel: Channel, capacity: usize) {
        let waker = {
            let mut queue = self.lock();
            if queue.end.is_some() {
                return;
            }
            if queue.pending.len() >= capacity {
                // The reader is behind: one signal per channel is all that it needs. So a queue
                // is longer than its capacity only by channels, of which an account has few.
                let mut seen = Vec::with_capacity(capacity);
                queue.pending.retain(|pending| {
                    let first = !seen.contains(pending);
                    if first {
                        seen.push(pending.clone());
                    }
                    first
                });
            }
            if queue.pending.len() < capacity || !queue.pending.contains(&channel) {
                queue.pending.push_back(channel);
            }
            queue.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn end(&self, end: End) {
        let waker = {
            let mut queue = self.lock();
            queue.end.get_or_insert(end);
            // What ends is told at once; pending hints are found by the next pull.
            queue.pending.clear();
            queue.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// One open stream; dropping it closes it.
#[derive(Debug)]
pub struct Subscription {
    hub: Arc<Hub>,
    id: u64,
    stream: Arc<Stream>,
}

impl Subscription {
    /// The next signal, when there is one. After [`Signal::End`] it gives that again.
    pub fn poll_signal(&self, cx: &mut Context<'_>) -> Poll<Signal> {
        let mut queue = self.stream.lock();
        if let Some(end) = queue.end {
            return Poll::Ready(Signal::End(end));
        }
        if let Some(channel) = queue.pending.pop_front() {
            return Poll::Ready(Signal::Changed(channel));
        }
        if queue.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            queue.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// What the stream listens to.
    pub fn selection(&self) -> &Selection {
        &self.stream.listener.selection
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let listener = &self.stream.listener;
        let mut state = self.hub.lock();
        state.open = state.open.saturating_sub(1);
        let Some(account) = state.accounts.get_mut(&listener.account) else { return };
        account.streams.remove(&self.id);
        let name = listener.selection.name();
        if let Some(count) = account.per_channel.get_mut(&name) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                account.per_channel.remove(&name);
            }
        }
        if account.streams.is_empty() {
            state.accounts.remove(&listener.account);
        }
    }
}

#[cfg(test)]
mod tests;
