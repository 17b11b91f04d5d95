//! Looking in: what status, manifests and the freeze gate need to know.

use std::collections::BTreeSet;

use tidings_proof::Replica;
use tidings_wire::AppId;

use super::{Engine, Link, MOST_WANTS, Testimony};
use crate::app::AppSync;
use crate::link::Stream;
use crate::output::Alarm;
use crate::push::Push;
use crate::start::AppRecord;
use crate::time::Time;

impl Engine {
    /// This replica.
    pub fn own(&self) -> Replica {
        self.own
    }

    /// How the device stands to its server.
    pub fn link(&self, now: Time) -> Link {
        if self.token.unlinked {
            return Link::Unlinked;
        }
        let link = &self.link;
        let unreachable = link.unreachable.is_some_and(|since| self.account.read <= Some(since));
        match link.stream {
            _ if unreachable || link.away => Link::Offline(link.backoff.until(now)),
            _ if self.is_held(now) => Link::Buffered,
            Stream::Open { .. } => Link::Online,
            _ if link.is_between(now, &self.config) => Link::Online,
            _ => Link::Connecting,
        }
    }

    /// Whether other calls are answered while something holds the stream's bytes back.
    pub(super) fn is_held(&self, now: Time) -> bool {
        let held = self.link.held_since(now, &self.config);
        held.is_some_and(|since| self.account.read >= Some(since))
    }

    /// Everything that the person must learn.
    pub fn alarms(&self) -> &BTreeSet<Alarm> {
        &self.alarms
    }

    /// Every app that is known here or on the server.
    pub fn apps(&self) -> BTreeSet<AppId> {
        self.apps.keys().chain(&self.account.apps).cloned().collect()
    }

    /// How far an app was pulled.
    pub fn record(&self, app: &AppId) -> Option<&AppRecord> {
        self.apps.get(app).map(|app| &app.record)
    }

    /// Everything that the server showed of an app is here, and nothing is known to be missing.
    pub fn is_whole(&self, app: &AppId) -> bool {
        !self.renewing
            && self.renew_due.is_none()
            && self.apps.get(app).is_some_and(AppSync::is_whole)
    }

    /// When the app's pages last reached the server's head.
    pub fn proved(&self, app: &AppId) -> Option<Time> {
        self.apps.get(app).and_then(|app| app.proved)
    }

    /// When chain, key ring and app list were last read.
    pub fn account_read(&self) -> Option<Time> {
        self.account.read
    }

    /// Whether a local write may be frozen in its own transaction: nothing of the app is frozen,
    /// the stream stands and the account is current.
    pub fn may_freeze(&self, now: Time, app: &AppId) -> bool {
        let ready = self.link.is_open()
            && self.has_token(now)
            && !self.renewing
            && !self.account.due
            && !self.account.asked;
        ready
            && self.apps.get(app).is_some_and(|app| {
                app.push == Push::Idle && app.push_backoff.ready(now) && !app.record.refill
            })
    }

    /// What a manifest of ours says of others.
    pub fn testimony(&self, app: &AppId) -> Testimony {
        let known = self.apps.get(app);
        Testimony {
            seen: known.map(|app| app.book.seen(self.own, &app.record.lost)).unwrap_or_default(),
            // Only what the server holds: others would take the rest for hidden by it.
            apps: self
                .apps
                .values()
                .filter(|app| app.book.own_acked.0 > 0)
                .map(|app| &app.app)
                .chain(&self.account.apps)
                .cloned()
                .collect(),
            wants: known.map(|app| app.wants(MOST_WANTS)).unwrap_or_default(),
        }
    }
}
