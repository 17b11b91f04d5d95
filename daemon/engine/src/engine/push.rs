//! Pushes: frozen by the driver, sent, answered; and new incarnations.

use tidings_wire::{AppId, ManifestNumber};

use super::{Engine, instant, wait_asked};
use crate::app::AppSync;
use crate::facts::{ChainVerdict, PushAnswer};
use crate::failure::{Failure, PushFailure};
use crate::link::Stream;
use crate::output::{Output, RenewCause};
use crate::push::Push;
use crate::start::{AppStart, EngineStart};
use crate::time::Time;

impl Engine {
    /// A local write was committed; `frozen` is the number of the manifest if it was frozen in the
    /// same transaction.
    pub fn handle_local_commit(&mut self, now: Time, app: &AppId, frozen: Option<ManifestNumber>) {
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
            None => (app.outbox, app.written) = (true, true),
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
            app.left(outbox);
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
                // Reading the account signs it anew, so that has to wait as well.
                let wait = app.push_backoff.until(now).map(|until| until.since(now));
                self.account.backoff.fail(now, &self.config, &mut self.jitter, wait);
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
        if let Some(app) = self.apps.get_mut(app)
            && app.push == Push::Sending
            && app.push_ticket == ticket
        {
            app.push = Push::Idle;
            app.push_backoff.clear();
            self.renew_backoff.clear();
            app.left(outbox);
            app.bare.set(now.after(self.config.manifest_every));
            // It says that it took this one: it must show it from now on, whichever it names here.
            app.book.own_acked = app.book.own_n;
            if answer.manifest.is_none_or(|mark| mark.n != app.book.own_n) {
                // A newer one is of a copy of this replica, if the server can show it; with an
                // older one it did not take ours.
                app.want_pull();
            }
            if app.record.generation.is_some_and(|known| known != answer.generation) {
                app.want_pull();
            }
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
            PushFailure::LaneFork => {
                self.renew(now, RenewCause::Copied, false);
            }
            PushFailure::LaneBehind => {
                self.renew(now, RenewCause::Behind, false);
            }
            PushFailure::LaneGap => {
                self.renew(now, RenewCause::ServerLost, true);
            }
            PushFailure::BelowFloor => {
                app.push_backoff.fail(now, &self.config, &mut self.jitter, Some(self.config.poll));
            }
            PushFailure::NothingFrozen => {
                app.push = Push::Idle;
                app.outbox = true;
            }
        }
        self.pump(now);
    }

    /// The replica has a new incarnation; `start` is what is stored now.
    pub fn handle_renewed(&mut self, now: Time, start: EngineStart) {
        (self.renewing, self.renew_due) = (false, None);
        let known: Vec<AppId> = self.apps.keys().cloned().collect();
        if start.own != self.own && self.link.stream != Stream::Down {
            // No replica is told of its own pushes: a stream of the old incarnation would keep
            // silent about those of a copy that goes on with it.
            self.outputs.push_back(Output::CloseStream);
            self.link.closed(now, None, &self.config, &mut self.jitter);
            self.link.backoff.clear();
        }
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
        self.renew_backoff.fail(now, &self.config, &mut self.jitter, None);
        self.renew_due = Some((cause, refill));
        self.pump(now);
    }
}
