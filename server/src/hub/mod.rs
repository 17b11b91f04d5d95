//! Who listens to which account, and how the word that something changed gets to them.
//!
//! One channel per (account, app), one for the account itself and one for all of them. The word
//! says that something changed and nothing else; it is published only after the change is durable
//! and acknowledged. Streams are parked: a slot in a table and a bare socket each; no task, no
//! timer, no buffer (docs/adr/0007). Where no socket can be had, an answer's body takes its place.

mod body;
mod frames;
mod listener;
mod seat;
mod shard;
mod sink;
mod slot;
mod streams;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use tidings_proof::Replica;
use tidings_wire::{AccountId, DeviceId};

pub use body::Body;
pub(crate) use frames::hello;
pub use listener::{ALL, Channel, End, Listener};
pub(crate) use seat::{Parking, Seat};
use shard::Shard;
pub(crate) use sink::Outlet;
pub use sink::{Sent, Sink, Wake};
use streams::Key;

/// How many tables there are. Each has a lock and a thread; an account is always in the same one.
const SHARDS: usize = 2;

/// How many streams, and their times.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Most streams of one (account, channel).
    pub per_channel: usize,
    /// Most streams of one account.
    pub per_account: usize,
    /// Frames kept for the slow reader of a body before they become one per channel.
    pub pending: usize,
    /// Between keep-alive comments.
    pub keepalive: Duration,
    /// The most that the `retry:` line of a server that stops asks for.
    pub closing_retry: Duration,
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

/// All open streams.
pub struct Hub {
    pending: usize,
    shards: Vec<Arc<Shard>>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("open", &self.open_streams()).finish_non_exhaustive()
    }
}

impl Hub {
    /// A hub without streams. Its threads end when it closes, at the latest when it is dropped.
    ///
    /// # Errors
    /// When the system gives no thread, or nothing to watch sockets with.
    pub fn start(settings: Settings) -> io::Result<Arc<Self>> {
        let started: io::Result<Vec<_>> = (0..SHARDS).map(|_| Shard::start(settings)).collect();
        let (shards, threads) = started?.into_iter().unzip();
        Ok(Arc::new(Self { pending: settings.pending, shards, threads }))
    }

    /// Opens a stream. From this moment on it misses nothing.
    ///
    /// # Errors
    /// [`SubscribeError`].
    pub fn subscribe(&self, listener: Listener) -> Result<Subscription, SubscribeError> {
        let shard = self.shard(listener.account).ok_or(SubscribeError::Closing)?;
        let expires = listener.expires;
        let (key, first) = {
            let mut streams = shard.lock();
            let first = streams.first_expiry();
            (streams.open(listener)?, first)
        };
        // The thread sleeps until the first end of a token, and without a stream for good.
        if first.is_none_or(|first| expires < first) {
            shard.wake();
        }
        Ok(Subscription { shard: shard.clone(), key: Some(key), pending: self.pending })
    }

    /// Tells everybody on a channel but the pusher that something changed.
    pub fn publish(&self, account: AccountId, channel: &str, pusher: Option<Replica>) {
        if let Some(shard) = self.shard(account) {
            shard.lock().publish(account, &channel.into(), pusher);
        }
    }

    /// Ends the streams of devices of an account.
    pub fn end_devices(&self, account: AccountId, devices: impl Fn(DeviceId) -> bool, end: End) {
        if let Some(shard) = self.shard(account) {
            shard.lock().end_devices(account, devices, end);
        }
    }

    /// Ends every stream and takes no new ones.
    pub fn close(&self) {
        for shard in &self.shards {
            shard.lock().close();
            shard.wake();
        }
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn shard(&self, account: AccountId) -> Option<&Arc<Shard>> {
        // Account ids are hashes: every byte of them is as good.
        let [byte, ..] = account.0;
        self.shards.get(usize::from(byte) % SHARDS)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.close();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the streams has panicked");
            }
        }
    }
}

/// One open stream that has no reader yet; dropping it closes it.
pub struct Subscription {
    shard: Arc<Shard>,
    key: Option<Key>,
    pending: usize,
}

impl Subscription {
    /// Hands the stream over to the hub, where it lives until its reader leaves or it ends.
    /// `first` is what the reader gets before anything else.
    pub(crate) fn park(mut self, sink: Outlet, first: &Bytes) {
        if let Some(key) = self.key.take() {
            self.shard.lock().attach(key, sink, first);
        }
    }

    /// The stream as a body that begins with `first`.
    pub fn into_body(self, first: &Bytes) -> Body {
        let (shard, key, pending) = (self.shard.clone(), self.key, self.pending);
        let (body, feed) = Body::new(self, pending);
        if let Some(key) = key {
            shard.lock().attach(key, Outlet::Boxed(Box::new(feed)), first);
        }
        body
    }

    /// Says that the sink has room again.
    fn resume(&self) {
        if let Some(key) = self.key {
            self.shard.lock().resume(key);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.shard.lock().forget(key);
        }
    }
}
