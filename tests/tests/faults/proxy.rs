//! A real nginx in the way that holds streams back, or ends them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tidings_tests::nginx::Nginx;
use tidings_tests::{DEADLINE, Device, Proxy, Server, eventually};
use tidings_wire::local::SyncState;

use super::{alarms, doctor, finds, notes};

/// Hints do not come through: it is looked for them instead, and the doctor names cause and fix.
async fn buffered(lines: &str) {
    let app = notes();
    let server = Server::with(&["stream.keepalive=1s"]);
    let nginx = Nginx::start(server.address(), lines);
    let mut a = Device::new("a")
        .set("sync.stream_first_bytes=500ms")
        .set("sync.poll_buffered=500ms")
        .set("sync.answer_timeout=2s");
    a.resume().await;
    a.create_account(&nginx.url()).await;
    let b = Device::start("b").await;
    a.link(&b, &server.url()).await;

    let told = a.status_until("it is told", |status| alarms(status) == ["stream_buffered"]).await;
    assert!(told.alarms[0].message.contains("every 0.5 s"), "{told:?}");
    let (code, found) = doctor(&a);
    assert_eq!(code, 4, "{found:?}");
    finds(&found, "alarm", &["proxy", "proxy_buffering off", "gzip_types"]);
    // Both ways all the same.
    b.put(&app, "t", "of b", &json!({})).await;
    a.rows_become(&app, "t", 1).await;
    a.put(&app, "t", "of a", &json!({})).await;
    b.rows_become(&app, "t", 2).await;
    let synced = a.synced().await;
    assert_eq!(alarms(&synced), ["stream_buffered"]);
    // Whatever becomes of the stream that is held back, the server is not called away.
    let end = tokio::time::Instant::now() + Duration::from_secs(3);
    let mut seen = BTreeSet::new();
    let mut follower = a.client().watch_status().await.unwrap();
    while let Ok(Ok(Some(event))) = tokio::time::timeout_at(end, follower.next()).await {
        let status: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        seen.insert(status["state"].as_str().unwrap_or_default().to_owned());
    }
    assert!(!seen.contains("offline") && !seen.contains("waiting"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f10_a_proxy_that_buffers() {
    buffered("proxy_buffering on; proxy_ignore_headers X-Accel-Buffering; proxy_buffers 8 64k;")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f10_a_proxy_that_compresses_and_buffers() {
    buffered(
        "proxy_ignore_headers X-Accel-Buffering; proxy_set_header Accept-Encoding gzip;
         gzip on; gzip_proxied any; gzip_types text/event-stream; gzip_min_length 0;
         gzip_http_version 1.0;",
    )
    .await;
}

/// A proxy that ends every stream after a second: nobody is told, and every change comes.
#[tokio::test(flavor = "multi_thread")]
async fn f11_a_proxy_that_ends_streams() {
    let app = notes();
    let server = Server::start();
    let counter = Proxy::start(server.address()).await;
    let nginx = Nginx::start(counter.address(), "proxy_read_timeout 1s; proxy_buffering off;");
    let mut a = Device::new("a").set("sync.backoff_first=1s").set("sync.backoff_max=60s");
    a.resume().await;
    a.create_account(&nginx.url()).await;
    let b = Device::start("b").await;
    a.link(&b, &server.url()).await;
    a.put(&app, "t", "first", &json!({})).await;
    b.rows_become(&app, "t", 1).await;
    a.synced().await;

    let mut follower = a.client().watch_status().await.unwrap();
    let before = counter.connections();
    // Streams are what ends here; each time one does, there is a new connection.
    eventually("four streams were ended", DEADLINE, async || {
        let more = counter.connections() - before;
        if more >= 4 { Ok(()) } else { Err(format!("{more} more")) }
    })
    .await;
    b.put(&app, "t", "of b", &json!({})).await;
    a.rows_become(&app, "t", 2).await;
    a.put(&app, "t", "of a", &json!({})).await;
    b.rows_become(&app, "t", 3).await;
    let mut seen = BTreeSet::new();
    let quiet = Duration::from_millis(200);
    while let Ok(Ok(Some(event))) = tokio::time::timeout(quiet, follower.next()).await {
        let status: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        seen.insert(status["state"].as_str().unwrap_or_default().to_owned());
        assert!(status["alarms"].as_array().is_none_or(Vec::is_empty), "{status}");
    }
    let invisible: BTreeSet<_> = ["synced", "syncing"].map(str::to_owned).into();
    assert!(seen.is_subset(&invisible), "somebody was told: {seen:?}");
    assert_eq!(a.status().await.state, SyncState::Synced);
}
