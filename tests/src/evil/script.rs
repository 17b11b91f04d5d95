//! What an evil server does: pieces that look at every request and every answer.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tidings_wire::sync::PullResponse;

use super::{Answer, Asked};

/// What becomes of a request.
#[derive(Debug, Clone)]
pub enum Turn {
    /// It goes to the real server.
    Pass,
    /// It is answered without asking anybody.
    Answer(Box<Answer>),
    /// It goes to another server.
    Ask(SocketAddr),
    /// The connection is cut without an answer.
    Cut,
    /// It reaches the real server, and the connection is cut before its answer.
    Lose,
}

impl From<Answer> for Turn {
    fn from(answer: Answer) -> Self {
        Self::Answer(Box::new(answer))
    }
}

type Before = Box<dyn Fn(&Asked) -> Turn + Send + Sync>;
type After = Box<dyn Fn(&Asked, &mut Answer) + Send + Sync>;

/// A script. The empty one is honest.
#[derive(Default)]
pub struct Script {
    befores: Vec<Before>,
    afters: Vec<After>,
    delay: Duration,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("befores", &self.befores.len())
            .field("afters", &self.afters.len())
            .finish_non_exhaustive()
    }
}

impl Script {
    /// An honest one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides what becomes of requests; the first piece that does not pass one on wins.
    #[must_use]
    pub fn before(mut self, turn: impl Fn(&Asked) -> Turn + Send + Sync + 'static) -> Self {
        self.befores.push(Box::new(turn));
        self
    }

    /// Answers every request to a path without asking the server.
    #[must_use]
    pub fn answer(
        self,
        path: &'static str,
        answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        self.before(move |asked| match asked.is(path) {
            true => answer(asked).into(),
            false => Turn::Pass,
        })
    }

    /// Changes answers; pieces act in their order.
    #[must_use]
    pub fn after(mut self, change: impl Fn(&Asked, &mut Answer) + Send + Sync + 'static) -> Self {
        self.afters.push(Box::new(change));
        self
    }

    /// Changes every page of a pull.
    #[must_use]
    pub fn pages(self, change: impl Fn(&Asked, &mut PullResponse) + Send + Sync + 'static) -> Self {
        self.after(move |asked, answer| {
            if asked.is("/api/sync/pull")
                && let Some(mut page) = answer.read_cbor::<PullResponse>()
            {
                change(asked, &mut page);
                answer.write_cbor(&page);
            }
        })
    }

    /// Lets every request wait.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    pub(super) fn turn(&self, asked: &Asked) -> Turn {
        let mut turns = self.befores.iter().map(|before| before(asked));
        turns.find(|turn| !matches!(turn, Turn::Pass)).unwrap_or(Turn::Pass)
    }

    pub(super) fn change(&self, asked: &Asked, answer: &mut Answer) {
        for after in &self.afters {
            after(asked, answer);
        }
    }

    pub(super) fn pause(&self) -> Duration {
        self.delay
    }
}
