//! What the daemon says about itself: one shared snapshot that the sync side writes and the API,
//! the command line and the tray read or follow.

use std::sync::{Arc, Mutex, PoisonError};

use tidings_wire::AppId;
use tidings_wire::local::{Alarm, AppStatus, LogPosition, StatusAnswer, SyncState};
use tokio::sync::watch;

use crate::clock;

/// The snapshot and everyone who follows it. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub struct Status {
    shared: watch::Sender<StatusAnswer>,
    /// What would be said if the disk took writes; none while it does.
    beneath: Arc<Mutex<Option<Beneath>>>,
}

/// State and reason that something more urgent stands before.
#[derive(Debug)]
struct Beneath {
    state: SyncState,
    reason: Option<String>,
}

impl Beneath {
    fn swap(&mut self, status: &mut StatusAnswer) {
        std::mem::swap(&mut self.state, &mut status.state);
        std::mem::swap(&mut self.reason, &mut status.reason);
    }
}

impl Status {
    /// The status of a daemon that has just opened the store of this name.
    pub fn new(store: impl Into<String>) -> Self {
        Self {
            shared: watch::Sender::new(StatusAnswer {
                state: SyncState::Starting,
                reason: None,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                store: store.into(),
                account: None,
                device: None,
                server: None,
                proven_at: None,
                recovery_kit: None,
                apps: Vec::new(),
                alarms: Vec::new(),
            }),
            beneath: Arc::default(),
        }
    }

    /// The snapshot as it is now.
    pub fn snapshot(&self) -> StatusAnswer {
        self.shared.borrow().clone()
    }

    /// Follows the snapshot: each difference wakes the receiver, several may come as one.
    pub fn follow(&self) -> watch::Receiver<StatusAnswer> {
        self.shared.subscribe()
    }

    /// Changes the snapshot; followers are woken only if something is different afterwards.
    pub fn change(&self, change: impl FnOnce(&mut StatusAnswer)) {
        self.shared.send_if_modified(|status| {
            let before = status.clone();
            let mut beneath = self.beneath.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(beneath) = beneath.as_mut() {
                beneath.swap(status);
            }
            change(status);
            if let Some(beneath) = beneath.as_mut() {
                beneath.swap(status);
            }
            *status != before
        });
    }

    /// Says what keeps the disk from being written, whatever else is to be said meanwhile; none
    /// once it takes writes.
    pub fn set_disk(&self, trouble: Option<String>) {
        self.shared.send_modify(|status| {
            let mut beneath = self.beneath.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(mut known) = beneath.take() {
                known.swap(status);
            }
            if let Some(trouble) = trouble {
                let mut new = Beneath { state: SyncState::Degraded, reason: Some(trouble) };
                new.swap(status);
                *beneath = Some(new);
            }
        });
    }

    /// Sets the state and what it waits for.
    pub fn set_state(&self, state: SyncState, reason: Option<String>) {
        self.change(|status| {
            status.state = state;
            status.reason = reason;
        });
    }

    /// Changes what is said of one app, which is added where it is not known yet.
    pub fn change_app(&self, app: &AppId, change: impl FnOnce(&mut AppStatus)) {
        self.change(|status| {
            let index = match status.apps.binary_search_by(|known| known.id.cmp(app)) {
                Ok(index) => index,
                Err(index) => {
                    status.apps.insert(
                        index,
                        AppStatus {
                            id: app.clone(),
                            position: LogPosition(0),
                            pushed: LogPosition(0),
                            pending: 0,
                            quarantined: 0,
                            quarantined_at: Vec::new(),
                            complete: false,
                        },
                    );
                    index
                }
            };
            if let Some(known) = status.apps.get_mut(index) {
                change(known);
            }
        });
    }

    /// Raises an alarm, or changes the text of the one with this code; its first time stays.
    pub fn raise(&self, code: &str, message: impl Into<String>, now: i64) {
        let message = message.into();
        self.change(|status| match status.alarms.iter_mut().find(|alarm| alarm.code == code) {
            Some(alarm) => alarm.message = message,
            None => {
                status.alarms.push(Alarm { code: code.to_owned(), message, since: clock::utc(now) })
            }
        });
    }

    /// Takes an alarm back.
    pub fn clear(&self, code: &str) {
        self.change(|status| status.alarms.retain(|alarm| alarm.code != code));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_wake_only_on_a_difference() {
        let status = Status::new("s");
        let mut follower = status.follow();
        follower.borrow_and_update();
        status.set_state(SyncState::Starting, None);
        assert!(!follower.has_changed().unwrap());
        status.set_state(SyncState::Local, None);
        assert!(follower.has_changed().unwrap());
    }

    #[test]
    fn a_disk_in_trouble_stands_before_everything_else() {
        let status = Status::new("s");
        let seen = || {
            let status = status.snapshot();
            (status.state, status.reason)
        };
        let degraded = |text: &str| (SyncState::Degraded, Some(text.to_owned()));
        status.set_disk(Some("full".into()));
        assert_eq!(seen(), degraded("full"));
        status.set_state(SyncState::Waiting, Some("locked".into()));
        assert_eq!(seen(), degraded("full"));
        status.set_disk(Some("read-only".into()));
        assert_eq!(seen(), degraded("read-only"));
        status.set_disk(None);
        assert_eq!(seen(), (SyncState::Waiting, Some("locked".to_owned())));
        status.set_disk(None);
        assert_eq!(seen(), (SyncState::Waiting, Some("locked".to_owned())));
    }

    #[test]
    fn apps_stay_in_order_and_alarms_keep_their_time() {
        let status = Status::new("s");
        for app in ["b", "a", "c", "b"] {
            status.change_app(&app.parse().unwrap(), |app| app.pending += 1);
        }
        let names: Vec<_> =
            status.snapshot().apps.iter().map(|app| (app.id.to_string(), app.pending)).collect();
        assert_eq!(names, [("a".into(), 1), ("b".into(), 2), ("c".into(), 1)]);

        status.raise("clock_ahead", "first", 0);
        status.raise("clock_ahead", "second", 9_000);
        let alarms = status.snapshot().alarms;
        assert_eq!(alarms.len(), 1);
        assert_eq!(alarms[0].message, "second");
        assert_eq!(alarms[0].since, "1970-01-01T00:00:00.000Z");
        status.clear("clock_ahead");
        assert!(status.snapshot().alarms.is_empty());
    }
}
