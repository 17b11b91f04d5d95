//! Somebody who follows everything that a device tells its apps, over every restart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidings_client::local::{Client, WatchOptions};
use tidings_client::socket::OWNER_TOKEN_NAME;
use tidings_tests::Device;
use tidings_wire::AppId;
use tidings_wire::local::Change;
use tokio::task::JoinSet;

use super::scene::{app, app_of};

type Changes = Arc<Mutex<BTreeMap<AppId, Vec<Change>>>>;

/// The witness of one device.
#[derive(Debug)]
pub struct Witness {
    changes: Changes,
    _tasks: JoinSet<()>,
}

impl Witness {
    /// Follows the apps that tests use.
    pub fn new(device: &Device) -> Self {
        let changes = Changes::default();
        let mut tasks = JoinSet::new();
        for app in [app(), app_of("photos")] {
            let (home, socket) = (device.home(), device.socket());
            tasks.spawn(follow(home, socket, app, Arc::clone(&changes)));
        }
        Self { changes, _tasks: tasks }
    }

    /// Everything that was told of an app.
    pub fn changes(&self, app: &AppId) -> Vec<Change> {
        self.changes.lock().unwrap().get(app).cloned().unwrap_or_default()
    }

    /// Every row that was shown of an app.
    pub fn shown(&self, app: &AppId) -> BTreeSet<(String, String)> {
        let changes = self.changes(app);
        let shown = changes.into_iter().filter(|change| change.record.is_some());
        shown.map(|change| (change.table, change.row_id)).collect()
    }
}

async fn follow(home: PathBuf, socket: PathBuf, app: AppId, changes: Changes) {
    let mut options = WatchOptions::default();
    loop {
        let token = std::fs::read_to_string(home.join(OWNER_TOKEN_NAME)).unwrap_or_default();
        if let Ok(client) = Client::new(&socket).with_token(token.trim())
            && let Ok(mut stream) = client.watch(&app, &[], &options).await
        {
            while let Ok(Some(event)) = stream.next().await {
                // An answer that a stream lost its place would make every assertion worthless.
                assert!(!event.data.contains("backfill_expired"), "{event:?}");
                if let Ok(change) = serde_json::from_str(&event.data) {
                    changes.lock().unwrap().entry(app.clone()).or_default().push(change);
                }
                options.last_event_id = Some(stream.last_event_id().to_owned());
            }
        }
        // The daemon is being started again by a test.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
