//! The house itself: what every other case stands on.

use serde_json::json;
use tidings_tests::{Device, House, Server};
use tidings_wire::AppId;

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_alone_serves_its_apps() {
    let app: AppId = "notes".parse().unwrap();
    let mut device = Device::start("alone").await;
    device.put(&app, "t", "r1", &json!({ "v": 1 })).await;
    device.stop();
    device.resume().await;
    device.row_becomes(&app, "t", "r1", &json!({ "id": "r1", "v": 1 })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_keeps_its_port_over_restarts() {
    let mut server = Server::start();
    let url = server.url();
    server.client().health().await.unwrap();
    server.stop();
    assert!(server.client().health().await.is_err());
    server.resume();
    assert_eq!(server.url(), url);
    server.client().health().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_reaches_the_other_device() {
    let app: AppId = "notes".parse().unwrap();
    let house = House::new(&["a", "b"]).await;
    house.device(0).put(&app, "t", "r1", &json!({ "v": 1 })).await;
    house.device(1).row_becomes(&app, "t", "r1", &json!({ "id": "r1", "v": 1 })).await;
    house.converge(&app, "t").await;
    house.device(0).synced().await;
}
