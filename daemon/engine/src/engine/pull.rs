//! Pages: judged, stored by the driver, then taken over.

use std::collections::BTreeSet;

use tidings_wire::AppId;

use super::{Engine, instant, wait_asked};
use crate::app::{Follow, Pull};
use crate::facts::{ChainVerdict, PageFacts, Retried};
use crate::failure::Failure;
use crate::output::{Alarm, PullOrder, Purpose, RenewCause};
use crate::page;
use crate::plan::PagePlan;
use crate::time::Time;

impl Engine {
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
        let mut plan = if facts.reset.is_some() || other_life {
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
        (app.pull, plan.ticket) = (Pull::Storing(order.ticket), order.ticket);
        Some(plan)
    }

    /// A page was stored, rows, cursor and all.
    pub fn handle_page_stored(&mut self, now: Time, plan: PagePlan) {
        self.freed();
        let name = plan.app.clone();
        let mut apps: BTreeSet<AppId> = self.account.apps.clone();
        apps.insert(name.clone());
        let Some(app) = self.apps.get_mut(&name) else { return };
        // One that was judged before a new incarnation knows nothing of it.
        if app.pull != Pull::Storing(plan.ticket) {
            return;
        }
        let Follow { renew, missing_apps } = app.stored(now, &self.config, self.own, &apps, plan);
        if missing_apps {
            self.want_account();
        }
        if let Some((cause, refill)) = renew
            && !self.renew(now, cause, refill)
            && cause == RenewCause::ServerLost
            && let Some(app) = self.apps.get_mut(&name)
        {
            app.record.refill |= refill;
        }
        self.pump(now);
    }

    /// What lies in an app's quarantine was tried again; none if it could not be.
    pub fn handle_retried(&mut self, now: Time, app: &AppId, retried: Option<Retried>) {
        if let Some(app) = self.apps.get_mut(app) {
            if retried.is_none() {
                app.pull_backoff.fail(now, &self.config, &mut self.jitter, None);
            }
            app.retried(retried);
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
                Pull::Idle | Pull::Retrying(_) => false,
            };
            if current {
                app.pull = Pull::Idle;
                app.due |= order.purpose == Purpose::Next || std::mem::take(&mut app.again);
                let asked = wait_asked(failure);
                if failure == Failure::Cursor {
                    app.forget_cursor();
                }
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
}
