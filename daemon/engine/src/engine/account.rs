//! Signing in, and reading chain, key ring and app list.

use std::time::Duration;

use super::{Engine, wait_asked};
use crate::app::{AppSync, Retry};
use crate::facts::{AccountFacts, ChainVerdict};
use crate::failure::Failure;
use crate::output::{Alarm, Output};
use crate::push::Push;
use crate::start::AppStart;
use crate::time::Time;

impl Engine {
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
            app.confirm_missing(&self.account.apps);
            if facts.changed {
                app.retry = Some(Retry::Grown);
            }
            if app.push == Push::Stale {
                app.push = Push::Resigning;
                self.outputs.push_back(Output::Resign(app.app.clone()));
            }
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
}
