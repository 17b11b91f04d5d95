//! O08: when the server's change counter restarts lower (rebuilt or restored store), clients with
//! a higher cursor are left behind.

use std::path::Path;

use serde_json::json;
use tidings_tests::{DEADLINE, Device, House, eventually};
use tidings_wire::AppId;

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Writes rows, each its own push.
async fn write(device: &Device, app: &AppId, prefix: &str, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let row = format!("{prefix}{number:02}");
        let written = device.put(app, "t", &row, &json!({ "n": number })).await;
        eventually("it is pushed", DEADLINE, async || {
            let pushed = device.app_status(app).await.pushed;
            if pushed >= written.position { Ok(()) } else { Err(format!("up to {pushed}")) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o08_a_server_that_went_back_leaves_nobody_behind() {
    let app: AppId = "notes".parse().unwrap();
    let mut house = House::new(&["a", "b", "c"]).await;
    write(house.device(0), &app, "a", 0..20).await;
    house.converge(&app, "t").await;
    house.server.stop();
    let backup = house.server.dir().join("backup");
    copy(&house.server.store_dir(), &backup);
    house.server.resume();
    write(house.device(0), &app, "a", 20..50).await;
    for device in &house.devices {
        device.rows_become(&app, "t", 50).await;
        device.synced().await;
    }

    house.server.stop();
    copy(&backup, &house.server.store_dir());
    house.server.resume();
    write(house.device(2), &app, "c", 0..5).await;
    for device in &house.devices {
        let what = format!("{} has C's rows and all of its own", device.name());
        eventually(&what, DEADLINE, async || {
            let rows = device.rows(&app, "t").await;
            let of = |prefix| {
                rows.iter().filter(|row| row["id"].as_str().unwrap().starts_with(prefix)).count()
            };
            // Nothing local is ever deleted by a reset, at any moment of it.
            assert_eq!(of("a"), 50, "{} lost rows", device.name());
            if of("c") == 5 { Ok(()) } else { Err(format!("{} of C's", of("c"))) }
        })
        .await;
    }

    // A's own lanes are ahead of that server's: its later writes arrive all the same.
    house.device(0).put(&app, "t", "later", &json!({})).await;
    for device in &house.devices {
        device.rows_become(&app, "t", 56).await;
    }
}
