//! Homes that were copied or put back: the copy takes lanes of its own, and nobody's rows are
//! overwritten or passed over.

use std::path::Path;

use serde_json::json;
use tidings_tests::{Device, House};
use tidings_wire::AppId;

/// Copies a home, all but its socket.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&source, &target);
        } else if kind.is_file() {
            std::fs::copy(&source, &target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_home_and_its_original_both_reach_everybody() {
    let app: AppId = "notes".parse().unwrap();
    let mut house = House::new(&["a", "b"]).await;
    house.device(1).put(&app, "t", "before", &json!({ "n": 0 })).await;
    house.device(0).rows_become(&app, "t", 1).await;
    house.device(1).synced().await;
    house.device_mut(1).stop();
    let mut twin = Device::new("twin");
    copy(&house.device(1).home(), &twin.home());
    house.device_mut(1).resume().await;
    twin.resume().await;
    for number in 0..20 {
        let (b, id) = (house.device(1), format!("b{number}"));
        b.put(&app, "t", &id, &json!({ "n": number })).await;
        twin.put(&app, "t", &format!("twin{number}"), &json!({ "n": number })).await;
    }
    house.devices.push(twin);
    for device in &house.devices {
        device.rows_become(&app, "t", 41).await;
    }
    house.converge(&app, "t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_put_back_from_a_backup_goes_on_writing() {
    let app: AppId = "notes".parse().unwrap();
    let mut house = House::new(&["a", "b"]).await;
    house.device(1).put(&app, "t", "before", &json!({ "n": 0 })).await;
    house.device(0).rows_become(&app, "t", 1).await;
    house.device(1).synced().await;
    house.device_mut(1).stop();
    let backup = tempfile::tempdir().unwrap();
    let home = house.device(1).home();
    copy(&home, backup.path());
    house.device_mut(1).resume().await;
    for number in 0..10 {
        house.device(1).put(&app, "t", &format!("lost{number}"), &json!({ "n": number })).await;
    }
    house.device(0).rows_become(&app, "t", 11).await;
    house.device(1).synced().await;
    house.device_mut(1).stop();
    std::fs::remove_dir_all(&home).unwrap();
    copy(backup.path(), &home);
    house.device_mut(1).resume().await;
    house.device(1).put(&app, "t", "after", &json!({ "n": 1 })).await;
    // What the backup had not is pulled back, what was written since goes out.
    house.device(0).rows_become(&app, "t", 12).await;
    house.device(1).rows_become(&app, "t", 12).await;
    house.converge(&app, "t").await;
}
