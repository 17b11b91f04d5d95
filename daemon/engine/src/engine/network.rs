//! Time and the network: timers, the stream of hints, sleep.

use std::time::Duration;

use tidings_wire::AppId;

use super::Engine;
use crate::failure::Failure;
use crate::link::Stream;
use crate::output::Output;
use crate::time::Time;

impl Engine {
    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.link.dead(now, &self.config) {
            self.outputs.push_back(Output::CloseStream);
            let failure = Some(Failure::Unreachable);
            self.link.closed(now, failure, &self.config, &mut self.jitter);
        }
        if self.link.is_buffered(now, &self.config) {
            self.next_poll = self.next_poll.min(now.after(self.config.poll_buffered));
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
        if !matches!(self.link.stream, Stream::Opening { .. }) {
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
        // Where other calls are answered, it is the stream alone that does not come through.
        let held = self.is_held(now);
        let failure = failure.filter(|failure| *failure != Failure::Unreachable || !held);
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
}
