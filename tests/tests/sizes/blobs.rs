//! What a device of the same account, which holds its keys, may seal.

use std::io::Write as _;

use serde_json::json;
use tidings_tests::hand::{plain, zstd};
use tidings_tests::inside::{InsideDaemon, InsideServer};
use tidings_tests::{Device, Hand};
use tidings_wire::{AppId, limits};

use crate::measure::{alone, bounded};

/// A gibibyte of zeros as one frame, made without holding it.
fn bomb() -> Vec<u8> {
    let mut encoder = ::zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    for _ in 0..1 << 10 {
        encoder.write_all(&[0; 1 << 20]).unwrap();
    }
    encoder.finish().unwrap()
}

/// A frame whose head announces a window of a gibibyte (RFC 8878, 3.1.1.1.2), and one byte.
const WINDOW: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 0x09, 0x00, 0x00, 0x00];

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_seal_around_too_much() {
    let _alone = alone().await;
    let app: AppId = "notes".parse().unwrap();
    let server = InsideServer::start().await;
    let daemon = InsideDaemon::start(Device::new("inside")).await;
    let device = &daemon.device;
    device.create_account(&server.url()).await;
    let mut hand = Hand::join(device, &server.url()).await;
    hand.push(&app, "t", &[("first", json!({}))]).await;
    device.rows_become(&app, "t", 1).await;

    let deep_cbor = [&[0x83, 0x01, 0x61, b't'][..], &[0x81; 200_000]].concat();
    let huge = |bytes: &[u8]| [&[0x83, 0x01, 0x61, b't'][..], bytes].concat();
    let sealed: Vec<(&str, Vec<u8>)> = vec![
        ("a gibibyte of zeros", zstd(&bomb())),
        ("a window of a gibibyte", zstd(WINDOW)),
        ("200,000 levels", plain(&deep_cbor)),
        ("2^63 rows", plain(&huge(&[0x9b, 128, 0, 0, 0, 0, 0, 0, 0]))),
        ("2^32 rows", plain(&huge(&[0x9a, 255, 255, 255, 255]))),
        ("an id of 2^63 bytes", plain(&huge(&[0x81, 0x82, 0x7b, 128, 0, 0, 0, 0, 0, 0, 0]))),
        (
            "a row of 2^63 cells",
            plain(&huge(&[0x81, 0x82, 0x61, b'r', 0x9b, 128, 0, 0, 0, 0, 0, 0, 0])),
        ),
        ("a body of its limit", plain(&vec![0x81; limits::BLOB_BODY_SINGLE])),
        ("a body past its limit", plain(&vec![0x81; limits::BLOB_BODY_SINGLE + 1])),
    ];
    let count = sealed.len();
    for (number, (what, packed)) in sealed.into_iter().enumerate() {
        let request = hand.seal(&app, &[("t", packed)]);
        let hand = &hand;
        let (app, wanted) = (&app, number as u64 + 1);
        let taking = async {
            hand.client().push(app, &request).await.unwrap();
            device
                .status_until(what, |status| {
                    status.apps.iter().any(|found| found.quarantined == wanted)
                })
                .await;
        };
        // The blob crosses two processes here: request and answer are held by both sides at once.
        bounded(what, 4 * limits::BLOB, taking).await;
    }
    // Sync goes on, past all of them.
    hand.push(&app, "t", &[("last", json!({}))]).await;
    device.rows_become(&app, "t", 2).await;
    assert_eq!(device.app_status(&app).await.quarantined, count as u64);
    daemon.stop().await;
}
