//! What is kept apart: entries that do not verify or open, and blobs that wait.

use tidings_engine::{LaneKey, Retried};
use tidings_proof::{Blob, LaneHead};

use super::*;

/// Pushes of one row each in a table: their blobs.
async fn pushes(computer: &Computer, table: &str, rows: &[&str]) -> Vec<Vec<u8>> {
    let mut blobs = Vec::new();
    for row in rows {
        computer.put(table, row, &format!("row {row}")).await;
        computer.freeze(limits::PUSH_BODY).await;
        blobs.extend(computer.frozen().0);
        computer.settle().await;
    }
    blobs
}

fn lane_of(blob: &[u8]) -> LaneKey {
    let lane = Blob::parse(blob).unwrap().header().lane.clone();
    LaneKey { replica: lane.replica, tag: lane.tag }
}

async fn retry(computer: &Computer, unlocked: Arc<Unlocked>) -> Retried {
    quarantine::retry(&computer.replica, unlocked, &app()).await.unwrap()
}

async fn total(computer: &Computer) -> records::QuarantineTotal {
    computer.replica.read(|source| records::quarantine_total(source, &app())).await.unwrap()
}

#[tokio::test]
async fn what_does_not_verify_or_open_is_kept_and_counted_and_the_rest_applied() {
    let (a, b) = Computer::pair().await;
    let mut blobs = Vec::new();
    for row in 1..=5 {
        a.put("t", &row.to_string(), &format!("row {row}")).await;
        a.freeze(limits::PUSH_BODY).await;
        blobs.extend(a.frozen().0);
        a.settle().await;
    }
    let whole = blobs.clone();
    // A flipped byte in the signed header, one in the sealed body, and a swap of two bodies.
    blobs[1][20] ^= 1;
    let middle = blobs[3].len() / 2;
    blobs[3][middle] ^= 1;
    let plan = b.take(response(&a.unlocked().chain, blobs, &[])).await;
    assert_eq!(plan.quarantine, [1, 3]);
    for (row, text) in [(1, true), (2, false), (3, true), (4, false), (5, true)] {
        assert_eq!(b.text("t", &row.to_string()).is_some(), text, "row {row}");
    }
    let held = quarantine::held(&b.replica, &app()).await.unwrap();
    assert_eq!(held, quarantine::Held { count: 2, at: vec![Position(2), Position(4)] });
    let start = b.start();
    assert!(start.apps[0].unplaced.is_empty(), "each explains its hole");
    // Served whole after all, they are applied.
    let mut again = response(&a.unlocked().chain, whole, &[]);
    again.entries.iter_mut().for_each(|entry| entry.position.0 += 10);
    again.position = Position(15);
    let plan = b.take(again).await;
    assert_eq!(plan.apply.len(), 2);
    assert_eq!(b.text("t", "2").as_deref(), Some("row 2"));
    assert_eq!(b.text("t", "4").as_deref(), Some("row 4"));
}

#[tokio::test]
async fn what_lacked_a_key_opens_once_it_is_here() {
    let [a, b, without] = Computer::trio().await;
    let blobs = pushes(&a, "t", &["1", "2", "3"]).await;
    let plan = without.take(response(&a.unlocked().chain, blobs, &[])).await;
    assert_eq!(plan.quarantine, [0, 1, 2]);
    let nothing = retry(&without, without.unlocked()).await;
    assert_eq!(nothing, Retried::default(), "without the key they only lie there");
    let retried = retry(&without, b.unlocked()).await;
    assert_eq!(retried.opened.len(), 3);
    assert!(retried.lacking.is_empty());
    assert_eq!(without.text("t", "2").as_deref(), Some("row 2"));
    assert_eq!(total(&without).await, records::QuarantineTotal::default());
    assert!(without.start().apps[0].lanes.values().all(|lane| lane.gaps.is_empty()));
}

#[tokio::test]
async fn what_lacked_a_key_and_was_not_kept_is_named_to_be_fetched_again() {
    let [a, b, without] = Computer::trio().await;
    let blobs = pushes(&a, "t", &["1", "2"]).await;
    let lane = lane_of(&blobs[0]);
    // A server has filled the quarantine with rubbish before it gave them.
    without
        .replica
        .update(&app(), Durability::Synced, |txn| {
            let big = vec![7; (64 << 20) / 256];
            for at in 0..256 {
                let entry = records::Quarantined {
                    bytes: Some(big.clone().into()),
                    place: None,
                    explained: true,
                    at_ms: NOW,
                };
                let at = records::QuarantineKey::of(Position(1_000 + at), &big);
                records::put_quarantine(txn, &app(), at, &entry)?;
            }
            Ok::<_, StoreError>(())
        })
        .await
        .unwrap();
    without.take(response(&a.unlocked().chain, blobs.clone(), &[])).await;
    assert_eq!(total(&without).await.entries, 258, "counted all the same");
    let retried = retry(&without, b.unlocked()).await;
    assert_eq!(retried, Retried { opened: Vec::new(), lacking: [lane].into() });
    // They come again, and open.
    let plan = without.take_with(b.unlocked(), response(&a.unlocked().chain, blobs, &[])).await;
    assert_eq!(plan.settled.len(), 2);
    assert_eq!(without.text("t", "2").as_deref(), Some("row 2"));
    assert_eq!(total(&without).await.entries, 256);
    assert_eq!(retry(&without, b.unlocked()).await, Retried::default());
}

#[tokio::test]
async fn where_an_entry_lies_does_not_depend_on_what_came_with_it() {
    let [a, b, without] = Computer::trio().await;
    // One push of two tables: the two blobs stand at one position.
    a.put("t", "1", "row 1").await;
    a.put("u", "1", "row 1").await;
    a.freeze(limits::PUSH_BODY).await;
    let blobs = a.frozen().0;
    assert_eq!(blobs.len(), 2);
    // The server gives each of them alone, as it does to a pull of one table.
    for blob in &blobs {
        without.take(response(&a.unlocked().chain, vec![blob.clone()], &[])).await;
    }
    assert_eq!(total(&without).await.entries, 2);
    // Both once more, the other way round: they are known.
    let mut both = response(&a.unlocked().chain, blobs.into_iter().rev().collect(), &[]);
    both.entries.iter_mut().for_each(|entry| entry.position = Position(1));
    without.take(both).await;
    assert_eq!(total(&without).await.entries, 2);
    assert_eq!(retry(&without, b.unlocked()).await.opened.len(), 2);
    for table in ["t", "u"] {
        assert_eq!(without.text(table, "1").as_deref(), Some("row 1"));
    }
}

#[tokio::test]
async fn each_damaged_record_at_a_position_counts() {
    let (a, b) = Computer::pair().await;
    let blobs = pushes(&a, "t", &["1", "2", "3"]).await;
    let mut page = response(&a.unlocked().chain, blobs, &[]);
    page.entries[1].item = Item::Damaged;
    page.entries[2].item = Item::Damaged;
    page.entries.iter_mut().for_each(|entry| entry.position = Position(1));
    b.take(page).await;
    assert_eq!(total(&b).await.entries, 2);
    assert_eq!(b.start().apps[0].unplaced, [(Position(1), 2)].into());
}

#[tokio::test]
async fn what_waited_in_another_history_is_kept_apart() {
    let (a, b) = Computer::pair().await;
    let blobs = pushes(&a, "t", &["1", "2", "3"]).await;
    // Its author signs a third one over another second.
    let unlocked = a.unlocked();
    let lane = lane_of(&blobs[0]);
    let other = LaneHead { seq: Seq(2), hash: tidings_wire::Hash([9; 32]) };
    let app = app();
    let forked = unlocked.lanes(&app, lane.replica.incarnation).append(lane.tag, other, b"");
    let mut page = response(&unlocked.chain, vec![blobs[0].clone(), forked.unwrap().bytes], &[]);
    page.entries[1].position = Position(3);
    b.take(page).await;
    assert_eq!(b.start().apps[0].staged.len(), 1);
    let mut page = response(&unlocked.chain, vec![blobs[1].clone()], &[]);
    page.entries[0].position = Position(4);
    b.take(page).await;
    assert_eq!(b.text("t", "2").as_deref(), Some("row 2"));
    assert!(b.start().apps[0].staged.is_empty(), "nothing waits any more");
    assert_eq!(total(&b).await.entries, 1);
    let mut page = response(&unlocked.chain, vec![blobs[2].clone()], &[]);
    page.entries[0].position = Position(5);
    b.take(page).await;
    assert_eq!(b.text("t", "3").as_deref(), Some("row 3"));
}

#[tokio::test]
async fn the_quarantine_does_not_fill_the_disk() {
    let (_, b) = Computer::pair().await;
    let big = limits::BLOB;
    b.replica
        .update(&app(), Durability::Synced, move |txn| {
            for at in 0..200 {
                let at = records::QuarantineKey::damaged(Position(at), 0);
                let bytes = Some(vec![0; big].into());
                let entry =
                    records::Quarantined { bytes, place: None, explained: false, at_ms: NOW };
                // Twice the same counts once.
                records::put_quarantine(txn, &app(), at, &entry)?;
                records::put_quarantine(txn, &app(), at, &entry)?;
            }
            let total = records::quarantine_total(txn, &app())?;
            assert_eq!(total.entries, 200);
            assert!(total.bytes <= 64 << 20, "{}", total.bytes);
            for at in 0..200 {
                let at = records::QuarantineKey::damaged(Position(at), 0);
                records::delete_quarantine(txn, &app(), at)?;
            }
            let total = records::quarantine_total(txn, &app())?;
            assert_eq!((total.entries, total.bytes), (0, 0));
            Ok::<_, StoreError>(())
        })
        .await
        .unwrap();
}
