//! O13: a device whose clock is ahead keeps writing happily while its peers reject its stamps, or
//! its stamps drag everyone into the future.
//!
//! The daemon of A runs under libfaketime, which reads its offset from a file at each look at the
//! clock, so that the clock can be put right while it runs. The monotonic clock stays real.

use std::path::PathBuf;

use serde_json::json;
use tidings_tests::{Device, House, Server};
use tidings_wire::AppId;

/// libfaketime for programs with threads, where the distribution puts it.
fn libfaketime() -> PathBuf {
    let places = std::fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    places
        .chain([PathBuf::from("/usr/lib")])
        .map(|place| place.join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.is_file())
        .expect("libfaketime is not installed: `apt install faketime`")
}

/// A device whose wall clock is set by a file.
struct Clock(PathBuf);

impl Clock {
    fn of(device: &mut Device, directory: &tempfile::TempDir) -> Self {
        let file = directory.path().join("clock");
        device.env("LD_PRELOAD", libfaketime().to_str().unwrap());
        device.env("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap());
        device.env("FAKETIME_NO_CACHE", "1");
        device.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let clock = Self(file);
        clock.set("+0");
        clock
    }

    /// In one step, so that no look finds half a file.
    fn set(&self, offset: &str) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, format!("{offset}\n")).unwrap();
        std::fs::rename(&new, &self.0).unwrap();
    }
}

/// A and B of one account, A's clock to be set.
async fn house(directory: &tempfile::TempDir, offset: &str) -> (House, Clock) {
    let mut a = Device::new("a");
    let clock = Clock::of(&mut a, directory);
    clock.set(offset);
    (House::of(Server::start(), None, [a, Device::new("b")]).await, clock)
}

#[tokio::test(flavor = "multi_thread")]
async fn o13_a_clock_that_is_ahead_wins_nothing() {
    let app: AppId = "notes".parse().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (house, clock) = house(&directory, "+365d").await;
    let (a, b) = (house.device(0), house.device(1));
    for (row, offset) in [("year", "+365d"), ("bound", "+300"), ("beyond", "+300.001")] {
        clock.set(offset);
        a.put(&app, "t", row, &json!({ "v": "future" })).await;
        b.row_becomes(&app, "t", row, &json!({ "id": row, "v": "future" })).await;
        // B has seen it: what B writes now is later, whatever A's clock said.
        b.put(&app, "t", row, &json!({ "v": "now" })).await;
        b.synced().await;
        clock.set("+0");
        for device in [a, b] {
            device.row_becomes(&app, "t", row, &json!({ "id": row, "v": "now" })).await;
        }
        // And edits of the device whose clock was right all along do not lose for a year.
        b.put(&app, "t", row, &json!({ "v": "later" })).await;
        for device in [a, b] {
            device.row_becomes(&app, "t", row, &json!({ "id": row, "v": "later" })).await;
        }
    }
    house.converge(&app, "t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o13_writes_made_offline_in_the_future_are_stamped_anew() {
    let app: AppId = "notes".parse().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (mut house, clock) = house(&directory, "+0").await;
    house.device(0).put(&app, "t", "r", &json!({ "v": "first" })).await;
    house.device(1).row_becomes(&app, "t", "r", &json!({ "id": "r", "v": "first" })).await;
    house.device(0).synced().await;

    // A starts anew with a wrong clock and no server to correct it.
    house.device_mut(0).stop();
    house.server.stop();
    clock.set("+365d");
    house.device_mut(0).resume().await;
    house.device(0).put(&app, "t", "r", &json!({ "v": "future" })).await;
    house.device(0).put(&app, "t", "only", &json!({ "v": "future" })).await;
    house.server.resume();
    let b = house.device(1);
    b.row_becomes(&app, "t", "r", &json!({ "id": "r", "v": "future" })).await;
    b.row_becomes(&app, "t", "only", &json!({ "id": "only", "v": "future" })).await;
    // Its stamps left A as of today: a write that has not even seen it wins by being later.
    let record = b.client().row(&app, "t", "r").await.unwrap();
    let stamp: tidings_wire::Stamp = record["_ver"]["id"].as_str().unwrap().parse().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ahead = i128::from(stamp.millis()) - i128::try_from(now.as_millis()).unwrap();
    assert!(ahead < 11 * 60 * 1_000, "it is {ahead} ms ahead");
    b.put(&app, "t", "r", &json!({ "v": "now" })).await;
    for device in &house.devices {
        device.row_becomes(&app, "t", "r", &json!({ "id": "r", "v": "now" })).await;
    }
    clock.set("+0");
    house.device(0).put(&app, "t", "r", &json!({ "v": "right again" })).await;
    for device in &house.devices {
        device.row_becomes(&app, "t", "r", &json!({ "id": "r", "v": "right again" })).await;
    }
}
