//! The invariants that hold after every attack.

use std::collections::BTreeSet;

use tidings_proof::Wrap;
use tidings_tests::evil::Asked;
use tidings_tests::hand::decode;
use tidings_tests::{DEADLINE, eventually};
use tidings_wire::account::{AppendChainRequest, CreateAccountRequest};
use tidings_wire::local::SyncState;

use super::scene::{CANARY, RowKey, Scene, with_id};

impl Scene {
    /// Turns every server honest and asserts, of every device:
    ///
    /// - what apps were shown is part of what honest devices wrote, each version told once (I1);
    /// - no key was wrapped for a key outside of the account (I2);
    /// - the attacked ones went on serving and writing (I4; the test called `endures`);
    /// - everything that was written is on every device (I5);
    /// - no server was told, and nothing logged, what is secret (I6).
    ///
    /// That the right alarm was raised in time (I3) is the test's own to say.
    pub async fn holds(&mut self) {
        for evil in &self.evils {
            evil.turn_honest();
        }
        assert!(!self.endured.lock().unwrap().is_empty(), "a test says who endured its attack");
        self.nothing_is_lost().await;
        self.only_history_was_shown().await;
        self.keys_went_to_devices_alone();
        self.nothing_secret_left();
    }

    /// I5.
    async fn nothing_is_lost(&self) {
        for (key, _) in self.written() {
            let (app, table, id) = &key;
            let wished = self.last(&key).map(|value| with_id(&value, id));
            for (index, device) in self.devices.iter().enumerate() {
                if self.may_lack(index, &key) {
                    continue;
                }
                let what = format!("{}: {app}/{table}/{id} in the end", device.name());
                eventually(&what, DEADLINE, async || {
                    let found = device.row(app, table, id).await;
                    if found == wished { Ok(()) } else { Err(format!("{found:?}")) }
                })
                .await;
            }
        }
        for device in &self.devices {
            let done = |status: &tidings_wire::local::StatusAnswer| {
                status.state == SyncState::Synced
                    && status.apps.iter().all(|app| app.pending == 0 && app.complete)
            };
            device.status_until("synced in the end", done).await;
        }
    }

    /// I1.
    async fn only_history_was_shown(&self) {
        let written = self.written();
        let apps: BTreeSet<_> = written.keys().map(|(app, ..)| app.clone()).collect();
        for (index, device) in self.devices.iter().enumerate() {
            for app in &apps {
                let mut told = BTreeSet::new();
                for change in self.witness(index).changes(app) {
                    let key: RowKey = (app.clone(), change.table.clone(), change.row_id.clone());
                    let Some(values) = written.get(&key) else {
                        panic!("{} told of a row that nobody wrote: {change:?}", device.name());
                    };
                    let mut shown = change.record.clone();
                    let version = shown.as_mut().and_then(|record| record.remove("_ver"));
                    let honest = values.iter().any(|value| {
                        let value = value.as_ref().map(|value| with_id(value, &change.row_id));
                        value == shown
                    });
                    assert!(honest, "{} told of what nobody wrote: {change:?}", device.name());
                    if let Some(version) = version {
                        let version = version["id"].to_string();
                        let again = !told.insert((key, version));
                        assert!(!again, "{} told twice of {change:?}", device.name());
                    }
                }
                let tables = written.keys().filter(|(of, ..)| of == app).map(|(_, table, _)| table);
                for table in tables.collect::<BTreeSet<_>>() {
                    for row in device.rows(app, table).await {
                        let id = row["id"].as_str().unwrap();
                        let key = (app.clone(), table.clone(), id.to_owned());
                        let known = self.last(&key).map(|value| with_id(&value, id));
                        assert_eq!(Some(&row), known.as_ref(), "{}: {table}", device.name());
                    }
                }
            }
        }
    }

    /// I2.
    fn keys_went_to_devices_alone(&self) {
        for asked in self.everything_asked() {
            for wrap in wraps(&asked) {
                let wrap = Wrap::decode(&decode(&wrap)).expect("a wrap");
                assert!(self.ids.contains(&wrap.device), "a key was wrapped for {}", wrap.device);
            }
        }
    }

    /// I6.
    fn nothing_secret_left(&self) {
        let mut secrets: Vec<Vec<u8>> = vec![CANARY.into()];
        for device in &self.devices {
            let keys = std::fs::read(device.home().join("keys")).expect("the key file");
            let seeds = keys.chunks(16).filter(|chunk| chunk.len() == 16);
            for seed in seeds.filter(|seed| seed.iter().collect::<BTreeSet<_>>().len() > 8) {
                secrets.push(seed.to_vec());
                secrets.push(hex(seed).into_bytes());
            }
        }
        let search = aho_corasick::AhoCorasick::new(&secrets).expect("what to look for");
        for asked in self.everything_asked() {
            let wire = asked.wire();
            let found = search.find(&wire);
            assert!(
                found.is_none(),
                "a server was told a secret by {} {}",
                asked.path,
                asked.query
            );
        }
        let (server, mut logs) = (self.server.log(), Vec::new());
        logs.push(("the server", server));
        for device in &self.devices {
            logs.push((device.name(), device.log()));
        }
        for (name, log) in logs {
            assert!(!log.is_empty(), "{name} logs nothing at all");
            for line in log.lines() {
                assert!(search.find(line).is_none(), "{name} logged a secret: {line}");
            }
        }
    }

    fn everything_asked(&self) -> Vec<Asked> {
        self.evils.iter().flat_map(tidings_tests::Evil::asked).collect()
    }
}

/// The wraps that a request carries.
fn wraps(asked: &Asked) -> Vec<String> {
    if asked.method != http::Method::POST {
        return Vec::new();
    }
    match asked.path.as_str() {
        "/api/accounts" => asked.json::<CreateAccountRequest>().wraps,
        "/api/chain" => asked.json::<AppendChainRequest>().wraps,
        _ => Vec::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
