//! O10: sequence numbers are handed out before commit; a reader that sees number 13 moves its
//! cursor past 10–12, which commit later, and never gets them.

use std::collections::BTreeSet;

use serde_json::json;
use tidings_client::remote::PullFilter;
use tidings_tests::{DEADLINE, Hand, Server, eventually};
use tidings_wire::AppId;
use tidings_wire::sync::Item;
use tokio::task::JoinSet;

const PUSHERS: usize = 8;
const PUSHES: usize = 500;

async fn many_pushers_one_reader(engine: &'static str) {
    let app: AppId = "notes".parse().unwrap();
    let rates = ["rates.account=off", "rates.address=off"];
    let server = Server::over(engine, &rates);
    let reader = Hand::create(&server.url()).await;
    let mut pushers = JoinSet::new();
    for number in 0..PUSHERS {
        let (mut hand, app) = (reader.twin(), app.clone());
        pushers.spawn(async move {
            for push in 0..PUSHES {
                let id = format!("{number}-{push}");
                hand.push(&app, "t", &[(&id, json!({}))]).await;
            }
        });
    }

    let mut seen = BTreeSet::new();
    let mut cursor: Option<Vec<u8>> = None;
    let mut passed = 0;
    let filter = PullFilter { limit: Some(7), ..PullFilter::default() };
    eventually("every change was read", DEADLINE * 2, async || {
        loop {
            let page = reader.pull(&app, cursor.as_deref(), &filter).await;
            let page = page.map_err(|error| error.to_string())?;
            for entry in &page.entries {
                let position = entry.position.0;
                assert!(position > passed, "position {position} appears after {passed} was given");
                let Item::Blob(blob) = &entry.item else { panic!("no blob at {position}") };
                assert!(seen.insert(blob.to_vec()), "the same change twice");
            }
            assert!(page.entries.len() <= 7 && page.position.0 >= passed);
            passed = page.position.0;
            cursor = Some(page.cursor.to_vec());
            if seen.len() >= PUSHERS * PUSHES {
                return Ok(());
            }
            if page.entries.is_empty() {
                return Err(format!("{} of {}", seen.len(), PUSHERS * PUSHES));
            }
        }
    })
    .await;
    while let Some(pusher) = pushers.join_next().await {
        pusher.unwrap();
    }
    let rest = reader.pull(&app, cursor.as_deref(), &filter).await.unwrap();
    assert!(rest.entries.is_empty() && !rest.has_more);
    assert_eq!(seen.len(), PUSHERS * PUSHES);
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_a_reader_passes_no_change_over_sled() {
    many_pushers_one_reader("sled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_a_reader_passes_no_change_over_redb() {
    many_pushers_one_reader("redb").await;
}
