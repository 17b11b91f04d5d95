//! The stage of every attack: a real server, an evil one before it for each device, real daemons,
//! and a memory of what honest devices wrote and of what apps were shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tidings_proof::Blob;
use tidings_tests::evil::{Asked, Evil, Script};
use tidings_tests::{DEADLINE, Device, Server, eventually};
use tidings_wire::local::{Record, StatusAnswer};
use tidings_wire::sync::{Entry, Item};
use tidings_wire::{AppId, DeviceId};

use super::witness::Witness;

/// What no server and no log may ever hold; every row and every table's name does.
pub const CANARY: &str = "xylocarpous";

/// Short intervals, from the documented configuration. The poll is long on purpose: a script's
/// begin and end cut the streams, so that devices pull at once, and whatever else a test sees was
/// asked for by the daemon's own doing.
const SETTINGS: [&str; 6] = [
    "sync.poll=20s",
    "sync.poll_buffered=500ms",
    "sync.manifest_after=500ms",
    "sync.token_margin=0ms",
    "sync.answer_timeout=5s",
    "sync.stall_timeout=5s",
];

/// A row by app, table and id.
pub type RowKey = (AppId, String, String);

/// The stage.
#[derive(Debug)]
pub struct Scene {
    pub server: Server,
    pub evils: Vec<Evil>,
    pub devices: Vec<Device>,
    pub ids: Vec<DeviceId>,
    witnesses: Vec<Witness>,
    history: Mutex<BTreeMap<RowKey, Vec<Option<Value>>>>,
    /// Rows that may be missing on a device: their blobs lie in its quarantine, and only a fill
    /// by a device that holds them heals that.
    unhealed: Mutex<BTreeSet<(usize, RowKey)>>,
    /// Devices that were seen to serve and to write while they were attacked.
    pub(super) endured: Mutex<BTreeSet<usize>>,
}

/// The app of most tests.
pub fn app() -> AppId {
    app_of("notes")
}

/// An app.
pub fn app_of(name: &str) -> AppId {
    name.parse().unwrap()
}

/// A table whose name is a secret.
pub fn table(name: &str) -> String {
    format!("{CANARY}-{name}")
}

/// A row whose content is a secret.
pub fn row(n: impl Into<Value>) -> Value {
    json!({ "v": n.into(), "s": CANARY })
}

impl Scene {
    /// Devices of these names on one account, each behind an evil server of its own that is
    /// honest for now.
    pub async fn new(names: &[&str]) -> Self {
        Self::with(names, &[]).await
    }

    /// The same with more settings for every device.
    pub async fn with(names: &[&str], settings: &[&str]) -> Self {
        let mut scene = Self {
            server: Server::start(),
            evils: Vec::new(),
            devices: Vec::new(),
            ids: Vec::new(),
            witnesses: Vec::new(),
            history: Mutex::default(),
            unhealed: Mutex::default(),
            endured: Mutex::default(),
        };
        for name in names {
            let evil = Evil::start(scene.server.address()).await;
            let device = device(name, settings).await;
            let account = match scene.devices.first() {
                None => device.create_account(&evil.url()).await,
                Some(first) => first.link(&device, &evil.url()).await,
            };
            scene.add(device, evil, account.device);
        }
        scene
    }

    /// Takes a linked device in.
    pub fn add(&mut self, device: Device, evil: Evil, id: DeviceId) {
        self.witnesses.push(Witness::new(&device));
        self.devices.push(device);
        self.evils.push(evil);
        self.ids.push(id);
    }

    /// Has an evil server play a script. Gives the mark from which on to look at what is asked.
    pub fn play(&self, device: usize, script: Script) -> usize {
        let mark = self.evils[device].mark();
        self.evils[device].play(script);
        mark
    }

    /// Has an evil server pass everything on, so that what it did before can come to rest.
    pub fn turn_honest(&self, device: usize) {
        self.evils[device].turn_honest();
    }

    // Honest work.

    /// Writes a row through a device's socket.
    pub async fn put(&self, device: usize, table: &str, id: &str, value: &Value) {
        self.put_in(device, &app(), table, id, value).await;
    }

    /// The same in any app.
    pub async fn put_in(&self, device: usize, app: &AppId, table: &str, id: &str, value: &Value) {
        self.note(app, table, id, Some(value.clone()));
        self.devices[device].put(app, table, id, value).await;
    }

    /// Writes a row and waits until the server has it: it is a blob of its own.
    pub async fn push(&self, device: usize, table: &str, id: &str, value: &Value) {
        self.push_in(device, &app(), table, id, value).await;
    }

    /// The same in any app.
    pub async fn push_in(&self, device: usize, app: &AppId, table: &str, id: &str, value: &Value) {
        self.put_in(device, app, table, id, value).await;
        self.pushed(device, app).await;
    }

    /// Waits until the server holds everything that a device wrote in an app.
    pub async fn pushed(&self, device: usize, app: &AppId) {
        let pushed = |status: &StatusAnswer| {
            status.apps.iter().any(|found| found.id == *app && found.pending == 0)
        };
        self.devices[device].status_until("pushed", pushed).await;
    }

    /// Deletes a row through a device's socket.
    pub async fn delete(&self, device: usize, table: &str, id: &str) {
        self.note(&app(), table, id, None);
        self.devices[device].client().delete(&app(), table, id, None).await.unwrap();
    }

    /// Notes what an honest device wrote.
    pub fn note(&self, app: &AppId, table: &str, id: &str, value: Option<Value>) {
        let key = (app.clone(), table.to_owned(), id.to_owned());
        self.history.lock().unwrap().entry(key).or_default().push(value);
    }

    /// Notes a row that a device need not have at the end, because its blob lies in quarantine.
    pub fn lies_in_quarantine(&self, device: usize, app: &AppId, table: &str, id: &str) {
        let key = (app.clone(), table.to_owned(), id.to_owned());
        self.unhealed.lock().unwrap().insert((device, key));
    }

    // Looking on.

    /// Waits until a device shows a row as it was last written.
    pub async fn sees(&self, device: usize, table: &str, id: &str) {
        self.sees_in(device, &app(), table, id).await;
    }

    /// The same in any app.
    pub async fn sees_in(&self, device: usize, app: &AppId, table: &str, id: &str) {
        let key = (app.clone(), table.to_owned(), id.to_owned());
        let wished = self.last(&key).map(|value| with_id(&value, id));
        let device = &self.devices[device];
        let what = format!("{}: {table}/{id} as it was written", device.name());
        eventually(&what, DEADLINE, async || {
            let found = device.row(app, table, id).await;
            if found == wished { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }

    /// A row was never shown on a device, neither in an answer nor in a stream.
    pub async fn never_saw(&self, device: usize, table: &str, id: &str) {
        self.never_saw_in(device, &app(), table, id).await;
    }

    /// The same in any app.
    pub async fn never_saw_in(&self, device: usize, app: &AppId, table: &str, id: &str) {
        let name = self.devices[device].name();
        let shown = self.devices[device].row(app, table, id).await;
        assert_eq!(shown, None, "{name} shows {table}/{id}");
        let told = self.witnesses[device].changes(app);
        let told: Vec<_> =
            told.iter().filter(|change| change.table == table && change.row_id == id).collect();
        assert!(told.is_empty(), "{name} told its apps of {table}/{id}: {told:?}");
    }

    /// Waits until a device raises an alarm, and asserts that three pulls were enough for it:
    /// plain ones, between a mark and the alarm. Those that look for one lane's missing blob do
    /// not count.
    pub async fn alarm(&self, device: usize, code: &str, mark: usize) -> StatusAnswer {
        let status = self.raised(device, code).await;
        let alarm = status.alarms.iter().find(|alarm| alarm.code == code).unwrap();
        let since: jiff::Timestamp = alarm.since.parse().unwrap();
        // To the millisecond, as alarms have it.
        let raised = std::time::SystemTime::from(since) + Duration::from_millis(1);
        let mut asked = self.evils[device].asked_since(mark);
        asked.retain(|asked| asked.at <= raised);
        let pulls = asked.iter().filter(|asked| asked.is_plain_pull()).count();
        let apps: BTreeSet<_> = asked.iter().filter_map(Asked::app).collect();
        let most = 3 * apps.len().max(1);
        assert!(pulls <= most, "{code} took {pulls} pulls of {apps:?}");
        status
    }

    /// Waits until a device raises an alarm.
    pub async fn raised(&self, device: usize, code: &str) -> StatusAnswer {
        let what = format!("the alarm {code}");
        let raised = |status: &StatusAnswer| status.alarms.iter().any(|alarm| alarm.code == code);
        self.devices[device].status_until(&what, raised).await
    }

    /// Waits until so many blobs of an app lie in a device's quarantine.
    pub async fn quarantined(&self, device: usize, app: &AppId, count: u64) -> StatusAnswer {
        let what = format!("{count} blobs of {app} in quarantine");
        let held = |status: &StatusAnswer| {
            status.apps.iter().any(|found| found.id == *app && found.quarantined == count)
        };
        self.devices[device].status_until(&what, held).await
    }

    /// Asserts that an attacked device serves what it had, and takes a write (I4): the write is
    /// among what everybody must have in the end.
    pub async fn endures(&self, device: usize) {
        self.endures_in(device, &app()).await;
    }

    /// The same in any app.
    pub async fn endures_in(&self, device: usize, app: &AppId) {
        let name = self.devices[device].name();
        let (table, id) = (table("own"), format!("of-{name}"));
        self.put_in(device, app, &table, &id, &row(name)).await;
        self.sees_in(device, app, &table, &id).await;
        let shown: BTreeSet<_> = self.witnesses[device].shown(app);
        let written = self.history.lock().unwrap().clone();
        for (table, id) in shown {
            // Only rows that were never deleted must still be there.
            let key = (app.clone(), table.clone(), id.clone());
            if written.get(&key).is_some_and(|values| values.iter().all(Option::is_some)) {
                let found = self.devices[device].row(app, &table, &id).await;
                assert!(found.is_some(), "{name} lost {table}/{id}");
            }
        }
        self.endured.lock().unwrap().insert(device);
    }

    /// Waits until no alarm stands on a device.
    pub async fn quiet(&self, device: usize) {
        let quiet = |status: &StatusAnswer| status.alarms.is_empty();
        self.devices[device].status_until("no alarm", quiet).await;
    }

    /// Waits until a device asks its server for nothing of its apps for a while: it does not spin.
    pub async fn still(&self, device: usize) {
        let what = format!("{} pulls nothing for a while", self.devices[device].name());
        eventually(&what, DEADLINE, async || {
            let mark = self.evils[device].mark();
            tokio::time::sleep(Duration::from_millis(400)).await;
            let asked = self.evils[device].asked_since(mark);
            let pulls = asked.iter().filter(|asked| asked.is("/api/sync/pull")).count();
            if pulls == 0 { Ok(()) } else { Err(format!("{pulls} pulls")) }
        })
        .await;
    }

    pub(super) fn last(&self, key: &RowKey) -> Option<Value> {
        self.history.lock().unwrap().get(key).and_then(|values| values.last().cloned()).flatten()
    }

    pub(super) fn written(&self) -> BTreeMap<RowKey, Vec<Option<Value>>> {
        self.history.lock().unwrap().clone()
    }

    pub(super) fn witness(&self, device: usize) -> &Witness {
        &self.witnesses[device]
    }

    pub(super) fn may_lack(&self, device: usize, key: &RowKey) -> bool {
        self.unhealed.lock().unwrap().contains(&(device, key.clone()))
    }
}

/// A daemon with short intervals, not linked yet.
pub async fn device(name: &str, settings: &[&str]) -> Device {
    let mut device = Device::new(name);
    for setting in SETTINGS.iter().chain(settings) {
        device = device.set(setting);
    }
    // What it would tell somebody who looks for a fault is searched for secrets too.
    device.env("TIDINGS_LOG", "info,tidings_daemon=trace,tidings_client=trace");
    device.resume().await;
    device
}

/// A row as it is shown: with its id.
pub fn with_id(value: &Value, id: &str) -> Record {
    let mut record: Map<String, Value> = value.as_object().cloned().unwrap_or_default();
    record.insert("id".to_owned(), Value::from(id));
    record
}

/// The blob in an entry, if it is one of a device.
pub fn blob_of(entry: &Entry, author: DeviceId) -> Option<Vec<u8>> {
    let Item::Blob(bytes) = &entry.item else { return None };
    let blob = Blob::parse(bytes).ok()?;
    (blob.header().lane.replica.device == author).then(|| bytes.to_vec())
}

/// Number of the blob in its lane.
pub fn seq_of(blob: &[u8]) -> u64 {
    Blob::parse(blob).unwrap().header().seq.0
}

/// An entry with other bytes at the same place.
pub fn swapped(entry: &Entry, bytes: Vec<u8>) -> Entry {
    Entry { item: Item::Blob(bytes.into()), ..entry.clone() }
}
