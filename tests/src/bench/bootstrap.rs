//! A million rows: into one device, and from the server into a new one.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use redb::{Database, TableDefinition};
use tidings_wire::AppId;
use tidings_wire::local::SyncState;

use super::accounts::server;
use super::process::peak_resident;
use super::{Aim, Benchmark, Figure, Plan, Rounds, block_on};
use crate::{Device, House, eventually};

const REDB: &str = "redb's own load of the same bytes in the order of their keys, in one commit";

/// The rows of a new device.
pub(super) const BOOTSTRAP: Benchmark = Benchmark {
    name: "bootstrap",
    about: "1,000,000 rows of 300 B are imported into one device, which pushes them; then one new \
            device after the other is linked, pulls, verifies, opens, merges and stores them.",
    figures: &[
        Figure {
            name: "rows",
            what: "rows a second into a new device, from its linking to the last row",
            unit: "/s",
            limit: REDB,
            aim: Aim::TimesAtLeast(0.5),
            unmet: "a new device verifies, opens, merges and encodes every row before redb stores it, and \
                the server and the first device run on the same cores; redb's load has a core for \
                itself. What each step takes was not measured apart.",
        },
        Figure {
            name: "memory",
            what: "most resident memory of the new device's daemon",
            unit: "MiB",
            limit: "",
            aim: Aim::AtMost(150.0),
            unmet: "a push of 8 MiB is 24,000 rows of 300 bytes (docs/adr/0008): its blobs, its opened \
                rows and what they become are in memory at once, beside redb's cache of 32 MiB.",
        },
        Figure {
            name: "import",
            what: "rows a second into the first device, by an import through its socket",
            unit: "/s",
            limit: REDB,
            aim: Aim::None,
            unmet: "",
        },
    ],
    run: |plan| block_on(measure(*plan)),
};

const TABLE: &str = "rows";
/// Rows of one piece of the import.
const PIECE: usize = 1_000;
/// Longest that the rows may take from one place to the next.
const LONGEST: Duration = Duration::from_secs(900);

async fn measure(plan: Plan) -> Rounds {
    let count = plan.pick(1_000_000, 2_000);
    let app: AppId = "bench".parse().expect("an app");
    let server = server(&[]);
    let dir = server.dir().to_owned();
    let mut house = House::of(server, None, [Device::new("first")]).await;
    let first = house.device(0);
    let start = Instant::now();
    let pieces = (0..count).step_by(PIECE).map(move |from| {
        let lines: String = (from..count.min(from + PIECE)).map(line).collect();
        Ok(Bytes::from(lines))
    });
    let imported = first
        .client()
        .import_stream(&app, TABLE, tokio_stream::iter(pieces))
        .await
        .expect("an import");
    assert_eq!(usize::try_from(imported.rows).ok(), Some(count));
    let import = count as f64 / start.elapsed().as_secs_f64();
    complete(first, &app, count).await;
    let mut rounds = Rounds::default();
    for _ in 0..plan.rounds() {
        let limit = count as f64 / load(&dir.join("limit.redb"), count).as_secs_f64();
        house.link(Device::new("new")).await;
        let start = Instant::now();
        let new = house.device(1);
        complete(new, &app, count).await;
        rounds.add("rows", count as f64 / start.elapsed().as_secs_f64(), limit);
        let mut new = house.devices.pop().expect("the new device");
        rounds.add("memory", peak_resident(new.process().id()) / f64::from(1 << 20), None);
        rounds.add("import", import, limit);
        new.kill();
    }
    rounds
}

/// Waits until everything is on the server and the last row is here.
async fn complete(device: &Device, app: &AppId, count: usize) {
    let last = id(count - 1);
    eventually("every row is where it belongs", LONGEST, async || {
        let status = device.status().await;
        let known = status.apps.iter().find(|known| known.id == *app);
        let settled = status.state == SyncState::Synced
            && known.is_some_and(|known| known.pending == 0 && known.complete);
        if settled && device.row(app, TABLE, &last).await.is_some() {
            Ok(())
        } else {
            Err(format!("{:?}, {known:?}", status.state))
        }
    })
    .await;
}

/// Loads the same bytes into a fresh file.
fn load(path: &Path, count: usize) -> Duration {
    const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");
    let start = Instant::now();
    let database = Database::builder().set_cache_size(32 << 20).create(path).expect("a file");
    let transaction = database.begin_write().expect("a transaction");
    {
        let mut table = transaction.open_table(ROWS).expect("a table");
        for number in 0..count {
            let inserted = table.insert(id(number).as_bytes(), line(number).as_bytes());
            inserted.expect("room on the disk");
        }
    }
    transaction.commit().expect("a disk that syncs");
    let taken = start.elapsed();
    drop(database);
    std::fs::remove_file(path).expect("the file of this moment");
    taken
}

fn id(number: usize) -> String {
    format!("row-{number:012}")
}

/// A row of 300 bytes.
fn line(number: usize) -> String {
    let id = id(number);
    // Words that do not repeat: what compresses well would be less.
    let mut text = String::new();
    let mut state = number as u64;
    while text.len() < 242 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:08x} ", state >> 32));
    }
    text.truncate(242);
    format!("{{\"id\":\"{id}\",\"number\":{:012},\"text\":\"{text}\"}}\n", number + 100_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_bytes() {
        for number in [0, 7, 999_999] {
            let line = line(number);
            assert_eq!(line.len(), 300, "{line}");
            assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
        }
    }
}
