//! A share of the streams, and the thread that looks after them: readers that leave, room for
//! what was held, keep-alives, tokens that end. What changed is written by whoever publishes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use super::Settings;
use super::streams::Streams;
use crate::clock::Millis;

/// In how many steps all streams get a keep-alive. Few and large ones: waking up costs more than
/// what is written then.
const STEPS: u32 = 6;
/// Keep-alives written without letting others at the streams.
const BATCH: usize = 256;
/// Events taken from the system at a time.
const EVENTS: usize = 512;
/// The token of the thread's own waker; no stream has it.
const WAKER: Token = Token(usize::MAX);
/// How long to wait after the system failed to say what happens.
const BACKOFF: Duration = Duration::from_millis(50);

/// The streams of a share of the accounts.
pub(super) struct Shard {
    streams: Mutex<Streams>,
    waker: Waker,
}

impl Shard {
    /// Starts a shard and its thread, which ends once the streams are closed.
    pub(super) fn start(settings: Settings) -> io::Result<(Arc<Self>, JoinHandle<()>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let streams = Mutex::new(Streams::new(settings, poll.registry().try_clone()?));
        let shard = Arc::new(Self { streams, waker });
        let looking = shard.clone();
        let thread = std::thread::Builder::new()
            .name("streams".to_owned())
            .spawn(move || looking.run(poll, settings.keepalive / STEPS))?;
        Ok((shard, thread))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread look again when it has to act next.
    pub(super) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::warn!(%error, "the thread of the streams is not woken");
        }
    }

    fn run(&self, mut poll: Poll, step: Duration) {
        let mut events = Events::with_capacity(EVENTS);
        let (mut due, mut turn) = (Instant::now() + step, 0);
        loop {
            let wait = {
                let streams = self.lock();
                if streams.is_closing() {
                    return;
                }
                // Without a stream there is nothing to wait for.
                streams.first_expiry().map(|first| {
                    let expiry = Millis::now().until(first);
                    expiry.min(due.saturating_duration_since(Instant::now()))
                })
            };
            if let Err(error) = poll.poll(&mut events, wait) {
                if error.kind() != io::ErrorKind::Interrupted {
                    tracing::warn!(%error, "the sockets of the streams cannot be watched now");
                    std::thread::sleep(BACKOFF);
                }
                continue;
            }
            {
                let mut streams = self.lock();
                events.iter().for_each(|event| streams.look(event.token().0));
                streams.expire(Millis::now());
            }
            let now = Instant::now();
            if now >= due {
                self.keep_alive(turn);
                turn = (turn + 1) % STEPS as usize;
                due = (due + step).max(now);
            }
        }
    }

    /// Sends a keep-alive to every stream whose turn it is.
    fn keep_alive(&self, turn: usize) {
        let stride = STEPS as usize;
        let mut from = turn;
        loop {
            let mut streams = self.lock();
            let bound = streams.bound();
            if from >= bound {
                return;
            }
            let batch = (from..bound).step_by(stride).take(BATCH);
            batch.for_each(|index| streams.keep_alive(index));
            drop(streams);
            std::thread::yield_now();
            from += BATCH * stride;
        }
    }
}
