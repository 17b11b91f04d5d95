//! O12: a `since` time with a positive offset fails, because a raw `+` in a query string decodes
//! to a space; on some back ends it quietly returns an empty list.
//!
//! The local socket has no `since`: it goes on from an event's id. The server's is documented in
//! docs/protocol.md: the instant itself is included.

use std::sync::Arc;

use serde_json::{Value, json};
use tidings_client::remote::PullFilter;
use tidings_tests::{DEADLINE, Hand, Server, eventually};
use tidings_wire::AppId;
use tidings_wire::sync::PullResponse;

/// A pull with a query as it is; the status and the body.
async fn pull(server: &Server, hand: &Hand, app: &AppId, since: &str) -> (u16, Vec<u8>) {
    let replica = hand.replica(app);
    let (device, incarnation) = (replica.device, replica.incarnation);
    let url = format!(
        "{}/api/sync/pull?app_id={app}&device_id={device}&incarnation={incarnation}&since={since}",
        server.url()
    );
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls).build().unwrap();
    let answer = client.get(url).bearer_auth(hand.token()).send().await.unwrap();
    (answer.status().as_u16(), answer.bytes().await.unwrap().to_vec())
}

/// Positions of what passes.
async fn passes(server: &Server, hand: &Hand, app: &AppId, since: &str) -> Vec<u64> {
    let (status, body) = pull(server, hand, app, since).await;
    assert_eq!(status, 200, "{since}: {}", String::from_utf8_lossy(&body));
    let page: PullResponse = minicbor::decode(&body).unwrap();
    page.entries.iter().map(|entry| entry.position.0).collect()
}

async fn instants(engine: &'static str) {
    let app: AppId = "notes".parse().unwrap();
    let server = Server::over(engine, &[]);
    let mut writer = Hand::create(&server.url()).await;
    let reader = writer.link().await;
    // Three pushes at different instants.
    let mut received: Vec<u64> = Vec::new();
    for number in 0..3 {
        writer.push(&app, "t", &[(&format!("r{number}"), json!({}))]).await;
        received = eventually("an instant of its own", DEADLINE, async || {
            let page = reader.pull(&app, None, &PullFilter::default()).await;
            let page = page.map_err(|error| error.to_string())?;
            let last = page.entries.last().map(|entry| entry.received_ms);
            // The clock has moved on: the next one gets another.
            match last.is_some_and(|last| page.now_ms > last) {
                true => Ok(page.entries.iter().map(|entry| entry.received_ms).collect()),
                false => Err("not yet".to_owned()),
            }
        })
        .await;
    }
    assert!(received.windows(2).all(|pair| pair[0] < pair[1]), "{received:?}");

    // Long ago: everything, however it is written.
    let all = passes(&server, &reader, &app, "2022-09-14T10:23:50%2B10:00").await;
    assert_eq!(all.len(), 3);
    for same in ["2022-09-14T00:23:50Z", "2022-09-14T10:23:50+10:00", "1663115030000"] {
        assert_eq!(passes(&server, &reader, &app, same).await, all, "{same}");
    }
    // The instant of the second push: it is included, and so is what came later.
    let instant = jiff::Timestamp::from_millisecond(i64::try_from(received[1]).unwrap()).unwrap();
    let offset = jiff::tz::Offset::constant(10);
    let there = instant.to_zoned(offset.to_time_zone()).strftime("%Y-%m-%dT%H:%M:%S%.3f%:z");
    for same in [
        instant.to_string(),
        there.to_string().replace('+', "%2B"),
        there.to_string(),
        received[1].to_string(),
    ] {
        assert_eq!(passes(&server, &reader, &app, &same).await, all[1..], "{same}");
    }
    let after = (received[1] + 1).to_string();
    assert_eq!(passes(&server, &reader, &app, &after).await, all[2..]);

    // A wall time is no instant: that one does not even exist in Europe.
    for wall in ["2026-03-29T02:30:00", "2022-09-14", "yesterday", ""] {
        let (status, body) = pull(&server, &reader, &app, wall).await;
        assert_eq!(status, 400, "{wall}");
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["details"]["field"], "since", "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o12_an_instant_is_the_same_however_it_is_written_over_sled() {
    instants("sled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o12_an_instant_is_the_same_however_it_is_written_over_redb() {
    instants("redb").await;
}
