//! What earlier releases wrote is opened by this one: `tests/data/keep` made it, `tests/data/vX.Y`
//! holds it, and it is never changed.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tidings_tests::device::Device;
use tidings_tests::process::{Process, command};
use tidings_tests::programs;
use tidings_tests::wait::{DEADLINE, eventually};
use tidings_wire::local::Record;

/// A home and, beside it, a store as a release left them. The daemon does not run yet.
fn unpack(release: &str, engine: &str) -> Device {
    let device = Device::new("kept");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(release);
    let file = File::open(path.join(format!("{engine}.tar.zst"))).expect("the kept file");
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--file=-", "--directory"]).arg(beside(&device));
    let mut tar = tar.stdin(Stdio::piped()).spawn().expect("tar");
    let mut into = tar.stdin.take().expect("its input");
    zstd::stream::copy_decode(file, &mut into).expect("a whole file");
    drop(into);
    assert!(tar.wait().expect("tar ends").success(), "tar failed");
    device
}

fn beside(device: &Device) -> std::path::PathBuf {
    device.home().parent().expect("a directory around the home").to_owned()
}

/// The rows that every kept home holds: 190 that were sent, and one that was not.
fn assert_rows(rows: Vec<Record>) {
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().expect("an id")).collect();
    let expected = (11..=200).map(|n| format!("r{n:03}")).chain(["unsent".to_owned()]);
    assert_eq!(ids, expected.collect::<Vec<_>>());
    let first = json!({
        "id": "r011", "title": "Zeile 11 \u{2713}", "n": 11, "big": u64::MAX, "f": 0.1, "none": null,
        "a.b": {"c": [1, "x"]},
    });
    assert_eq!(Value::Object(rows[0].clone()), first);
}

/// `address` is where the kept home looks for its server: one that nothing else takes.
async fn opens(release: &str, engine: &str, address: &str) {
    let app = "kept".parse().expect("an app id");
    let mut device = unpack(release, engine);

    // Without its server it shows every row.
    device.resume().await;
    assert_rows(device.rows(&app, "rows").await);
    device.stop();

    // With it, what was unsent is sent, and a new device gets everything.
    let store = format!("{engine}:{}", beside(&device).join("store").display());
    let mut serve = command(programs::tidings_server());
    serve.env("HOME", beside(&device)).args(["serve", "--json", "--listen", address]);
    let mut server = Process::start("the server", serve.args(["--store", &store]));
    server.line("the address", DEADLINE, |line| line.contains("listening").then_some(()));
    device.resume().await;
    device.synced().await;
    let fresh = Device::start("fresh").await;
    device.link(&fresh, &format!("http://{address}")).await;
    eventually("the new device has the rows", DEADLINE, async || {
        let rows = fresh.rows(&app, "rows").await.len();
        if rows == 191 { Ok(()) } else { Err(format!("{rows} rows")) }
    })
    .await;
    assert_rows(fresh.rows(&app, "rows").await);
    device.stop();
    server.stop(DEADLINE);
}

#[tokio::test]
async fn a_store_over_sled_and_a_home_of_0_1_open() {
    opens("v0.1", "sled", "127.83.67.1:47843").await;
}

#[tokio::test]
async fn a_store_over_redb_and_a_home_of_0_1_open() {
    opens("v0.1", "redb", "127.83.67.2:47843").await;
}
