//! Where each app's log ends, for everyone who waits for more of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tidings_wire::AppId;
use tidings_wire::local::LogPosition;
use tokio::sync::watch;

/// One watched position per app. A wake-up says only that there is more; what it is stands in the
/// log, so no follower can miss or overflow anything.
#[derive(Debug, Default)]
pub struct Heads {
    apps: Mutex<BTreeMap<AppId, watch::Sender<LogPosition>>>,
}

impl Heads {
    /// Follows an app's head, which is zero until it exists.
    pub fn follow(&self, app: &AppId) -> watch::Receiver<LogPosition> {
        let mut apps = self.apps.lock().unwrap_or_else(PoisonError::into_inner);
        apps.entry(app.clone()).or_default().subscribe()
    }

    /// Raises an app's head; followers are woken if it rose.
    pub fn raise(&self, app: &AppId, position: LogPosition) {
        let mut apps = self.apps.lock().unwrap_or_else(PoisonError::into_inner);
        apps.entry(app.clone()).or_default().send_if_modified(|head| {
            let rose = position > *head;
            *head = position.max(*head);
            rose
        });
    }
}
