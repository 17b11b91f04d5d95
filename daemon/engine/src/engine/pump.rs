//! Deciding what is due and allowed: called after everything that happened.

use std::collections::BTreeSet;

use tidings_wire::AppId;

use super::{Dropped, Engine};
use crate::app::Pull;
use crate::failure::Failure;
use crate::link::Stream;
use crate::output::{Alarm, Output, PullOrder, Purpose, RenewCause};
use crate::push::Push;
use crate::time::Time;

impl Engine {
    /// Starts whatever is due and allowed.
    pub(super) fn pump(&mut self, now: Time) {
        self.note_alarms(now);
        if self.renew_backoff.ready(now)
            && let Some((cause, refill)) = self.renew_due.take()
        {
            self.order_renewal(cause, refill);
        }
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
            self.link.opening(now);
            self.outputs.push_back(Output::OpenStream);
        }
        self.serve_apps(now);
    }

    pub(super) fn serve_account(&mut self, now: Time) {
        if self.account.due && !self.account.asked && self.account.backoff.ready(now) {
            (self.account.due, self.account.asked) = (false, true);
            self.outputs.push_back(Output::ReadAccount);
        }
    }

    /// Orders pulls and pushes, each app in turn, while slots are free.
    pub(super) fn serve_apps(&mut self, now: Time) {
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

    pub(super) fn serve_pull(&mut self, now: Time, name: &AppId) {
        let Some(app) = self.apps.get_mut(name) else { return };
        if app.pull == Pull::Idle
            && app.pull_backoff.ready(now)
            && let Some(cause) = app.retry.take()
        {
            app.pull = Pull::Retrying(cause);
            self.outputs.push_back(Output::RetryQuarantine(name.clone()));
        }
        if self.in_flight >= self.config.parallel {
            return;
        }
        let Some(purpose) = app.next_pull(now) else { return };
        self.tickets = self.tickets.wrapping_add(1);
        let (cursor, tags) = match purpose {
            Purpose::Next => {
                app.due = false;
                (app.record.cursor.clone(), Vec::new())
            }
            Purpose::Refetch(lane) => {
                (app.refetch.as_ref().map(|refetch| refetch.cursor.clone()), vec![lane.tag])
            }
        };
        app.pull = Pull::Asked(self.tickets, purpose);
        app.acked_when_asked = app.book.own_acked;
        let order = PullOrder {
            app: name.clone(),
            ticket: self.tickets,
            purpose,
            cursor,
            tags,
            limit: self.config.page_entries,
            known: app.book.marks(self.own),
        };
        self.in_flight = self.in_flight.saturating_add(1);
        self.turn = Some(name.clone());
        self.outputs.push_back(Output::Pull(order));
    }

    pub(super) fn serve_push(&mut self, now: Time, name: &AppId) {
        let Some(app) = self.apps.get_mut(name) else { return };
        if !app.push_backoff.ready(now) {
            return;
        }
        match app.push {
            Push::Idle if app.outbox => {
                (app.push, app.written) = (Push::Freezing, false);
                self.outputs.push_back(Output::Freeze(name.clone()));
            }
            Push::Idle if app.bare.at().is_some_and(|at| at <= now) => {
                app.bare.set(now.after(self.config.manifest_every));
                (app.push, app.written) = (Push::Freezing, false);
                self.outputs.push_back(Output::SignManifest(name.clone()));
            }
            Push::Ready if self.in_flight < self.config.parallel => {
                self.tickets = self.tickets.wrapping_add(1);
                (app.push, app.written) = (Push::Sending, false);
                app.push_ticket = self.tickets;
                self.in_flight = self.in_flight.saturating_add(1);
                self.turn = Some(name.clone());
                self.outputs.push_back(Output::Push(name.clone(), self.tickets));
            }
            _ => {}
        }
    }

    /// Orders a new incarnation; false while the last one is too fresh, then it is tried again.
    pub(crate) fn renew(&mut self, now: Time, cause: RenewCause, refill: bool) -> bool {
        if self.renewing || self.renew_due.is_some() {
            return true;
        }
        // Pushing everything again is a lot of work for a server that may drop it again.
        if cause == RenewCause::Dropped && self.dropped.is_some() {
            return false;
        }
        if !self.renew_backoff.ready(now) {
            let wait = self.renew_backoff.until(now).map(|until| until.since(now));
            for app in self.apps.values_mut().filter(|app| app.push == Push::Ready) {
                app.push_backoff.fail(now, &self.config, &mut self.jitter, wait);
            }
            return false;
        }
        self.renew_backoff.fail(now, &self.config, &mut self.jitter, None);
        if cause == RenewCause::Dropped {
            self.dropped =
                Some(Dropped { until: now.after(self.config.poll), alarms: self.rollbacks() });
        }
        self.order_renewal(cause, refill);
        true
    }

    fn order_renewal(&mut self, cause: RenewCause, refill: bool) {
        self.renewing = true;
        self.outputs.push_back(Output::NewIncarnation { cause, refill });
        for app in self.apps.values_mut() {
            app.push = Push::Renewing;
        }
    }

    /// Draws what follows from a failure for everything else.
    pub(super) fn note(&mut self, now: Time, failure: Option<Failure>) {
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
            Some(Failure::Busy(_) | Failure::Refused | Failure::Cursor) | None => {}
        }
    }

    pub(super) fn want_account(&mut self) {
        if self.account.asked {
            self.account.again = true;
        } else {
            self.account.due = true;
        }
    }

    pub(super) fn want_everything(&mut self, now: Time) {
        let buffered = self.link.is_buffered(now, &self.config);
        let wait = if buffered { self.config.poll_buffered } else { self.config.poll };
        self.next_poll = now.after(wait);
        self.want_account();
        for app in self.apps.values_mut() {
            app.want_pull();
            app.retry_withheld(now);
        }
    }

    pub(super) fn hurry(&mut self) {
        self.token.backoff.hurry();
        self.account.backoff.hurry();
        for app in self.apps.values_mut() {
            app.pull_backoff.hurry();
            app.push_backoff.hurry();
        }
    }

    pub(super) fn freed(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    pub(super) fn has_token(&self, now: Time) -> bool {
        self.token.expires.is_some_and(|at| at > now)
    }

    /// When the token is to be renewed; none if there is none.
    pub(super) fn token_renewal(&self) -> Option<Time> {
        self.token.expires
    }

    /// What stands now of servers that show less than they showed.
    fn rollbacks(&self) -> BTreeSet<Alarm> {
        let alarms = self.apps.values().flat_map(|app| app.alarms(&self.config));
        alarms.filter(|alarm| matches!(alarm, Alarm::Rollback { .. })).collect()
    }

    pub(super) fn note_alarms(&mut self, now: Time) {
        self.dropped.take_if(|dropped| dropped.until <= now);
        let mut alarms = self.account.alarms.clone();
        alarms.extend(self.dropped.iter().flat_map(|dropped| dropped.alarms.iter().cloned()));
        for app in self.apps.values() {
            alarms.extend(app.alarms(&self.config));
        }
        if alarms != self.alarms {
            self.alarms = alarms;
            self.outputs.push_back(Output::Alarms);
        }
    }
}
