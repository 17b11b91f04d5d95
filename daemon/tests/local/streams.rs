//! Streams: both profiles, resuming without gaps, resync, filters, limits, the end.

use serde_json::json;

use crate::support::{Running, Start, Stream};

const TABLE: &str = "/v1/apps/s/tables/t";
const ROWS: &str = "/v1/apps/s/tables/t/rows";

async fn row(daemon: &Running, id: &str, n: u64) -> u64 {
    let row = json!({"id":id,"n":n}).to_string();
    daemon.put(&format!("{ROWS}/{id}"), row).send().await.ok().position.unwrap()
}

async fn opened(daemon: &Running, path: &str) -> (Stream, String) {
    let mut stream = daemon.stream(path).await;
    let connected = stream.event().await;
    assert_eq!(connected.name, "connected");
    (stream, connected.id)
}

#[tokio::test]
async fn both_profiles_show_what_happened() {
    let daemon = Start::default().fresh().await;
    let (mut stream, _) = opened(&daemon, &format!("{TABLE}/stream")).await;
    let strict = daemon.get(&format!("{TABLE}/subscribe")).header("accept", "text/event-stream");
    let mut subscribe = strict.stream().await;
    let connected = subscribe.event().await;
    assert_eq!(connected.data["live"], true);
    assert_eq!(connected.data["resumed"], false);
    assert_eq!(connected.text("table"), "t");
    daemon.get(&format!("{TABLE}/subscribe")).send().await.refused(406, "stream.not_acceptable");
    daemon
        .get(&format!("{TABLE}/subscribe"))
        .header("accept", "*/*")
        .send()
        .await
        .refused(406, "stream.not_acceptable");
    daemon
        .get(&format!("{TABLE}/stream"))
        .header("accept", "application/json")
        .send()
        .await
        .refused(406, "stream.not_acceptable");

    let insert = daemon
        .post(ROWS, r#"{"id":"a","n":1}"#)
        .header("tidings-client", "org.example.notes")
        .header("tidings-mutation-id", "m7");
    let first = insert.send().await.ok().position.unwrap().to_string();
    let got = stream.event().await;
    assert_eq!((got.name.as_str(), got.id.as_str()), ("insert", first.as_str()));
    assert_eq!(
        (got.text("id"), got.text("type"), got.text("table")),
        (first.as_str(), "insert", "t")
    );
    assert_eq!((got.text("row_id"), &got.data["record"]["n"]), ("a", &json!(1)));
    assert_eq!(got.data["old_record"], json!(null));
    assert_eq!(got.data["origin"], json!({"client":"org.example.notes","mutation_id":"m7"}));
    assert_eq!((got.text("tx"), &got.data["tx_last"]), (first.as_str(), &json!(true)));
    assert!(got.text("at").ends_with('Z'));
    let same = subscribe.event().await;
    assert_eq!((same.name.as_str(), same.text("type")), ("message", "insert"));
    assert_eq!(same.data["record"], got.data["record"]);

    daemon.patch(&format!("{ROWS}/a"), r#"{"$set":{"n":2}}"#).send().await.ok();
    let got = stream.event().await;
    assert_eq!(got.name, "update");
    assert_eq!((&got.data["record"]["n"], &got.data["old_record"]["n"]), (&json!(2), &json!(1)));
    assert_eq!(got.text("transition"), "stay");
    let same = subscribe.event().await;
    assert_eq!((same.text("type"), &same.data["old_record"]), ("update", &json!(null)));

    daemon.delete(&format!("{ROWS}/a")).send().await.ok();
    let got = stream.event().await;
    assert_eq!((got.name.as_str(), got.text("row_id")), ("delete", "a"));
    assert_eq!((&got.data["record"], &got.data["old_record"]["n"]), (&json!(null), &json!(2)));
    let same = subscribe.event().await;
    assert_eq!((same.text("type"), &same.data["old_record"]), ("delete", &json!(null)));

    // The simplest parser there is understands the frames.
    let text = String::from_utf8(stream.raw.clone()).unwrap();
    assert!(!text.contains('\r'));
    for frame in text.trim_end().split("\n\n") {
        let data: Vec<_> = frame.lines().filter(|line| line.starts_with("data: ")).collect();
        assert_eq!(data.len(), 1, "{frame}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn one_transaction_is_one_event_per_row_and_its_end_is_marked() {
    let daemon = Start::default().fresh().await;
    let (mut stream, _) = opened(&daemon, &format!("{TABLE}/stream")).await;
    let (mut both, _) = opened(&daemon, "/v1/apps/s/stream?tables=t,u").await;
    let (mut one, _) = opened(&daemon, &format!("{ROWS}/b/stream")).await;
    let ops = json!({"ops":[
        {"op":"put","table":"t","id":"a","row":{"n":1}},
        {"op":"put","table":"t","id":"gone","row":{}},
        {"op":"put","table":"t","id":"b","row":{"n":1}},
        {"op":"put","table":"t","id":"a","row":{"n":2}},
        {"op":"delete","table":"t","id":"gone"},
        {"op":"put","table":"u","id":"c","row":{}},
        {"op":"put","table":"v","id":"d","row":{}},
    ]});
    daemon.post("/v1/apps/s/batch", ops.to_string()).send().await.ok();
    let seen = async |stream: &mut Stream, count: usize| {
        let mut seen = Vec::new();
        for _ in 0..count {
            let got = stream.event().await;
            seen.push((got.text("row_id").to_owned(), got.data["tx_last"] == true));
        }
        seen
    };
    let pairs = |list: &[(&str, bool)]| {
        list.iter().map(|(id, last)| ((*id).to_owned(), *last)).collect::<Vec<_>>()
    };
    assert_eq!(seen(&mut stream, 2).await, pairs(&[("a", false), ("b", true)]));
    assert_eq!(seen(&mut both, 3).await, pairs(&[("a", false), ("b", false), ("c", true)]));
    assert_eq!(seen(&mut one, 1).await, pairs(&[("b", true)]));
    daemon.stop().await;
}

#[tokio::test]
async fn a_filter_shows_entering_staying_and_leaving() {
    let daemon = Start::default().fresh().await;
    let (mut stream, _) =
        opened(&daemon, &format!("{TABLE}/stream?filter=%7B%22n%22:1%7D&fields=n")).await;
    let (mut deletes, _) = opened(&daemon, &format!("{TABLE}/stream?events=delete&old=none")).await;
    row(&daemon, "a", 2).await;
    row(&daemon, "a", 1).await;
    let got = stream.event().await;
    assert_eq!((got.name.as_str(), got.text("transition")), ("update", "enter"));
    assert_eq!(got.data["record"], json!({"id":"a","n":1}));
    assert_eq!(got.data["old_record"], json!(null), "it did not pass the filter");
    daemon.patch(&format!("{ROWS}/a"), r#"{"$set":{"x":1}}"#).send().await.ok();
    assert_eq!(stream.event().await.text("transition"), "stay");
    row(&daemon, "a", 3).await;
    let got = stream.event().await;
    assert_eq!((got.name.as_str(), got.text("reason")), ("leave", "filtered-out"));
    daemon.delete(&format!("{ROWS}/a")).send().await.ok();
    row(&daemon, "b", 1).await;
    assert_eq!(stream.event().await.text("row_id"), "b", "the delete of a hidden row is silent");
    // Marked as deleted by the app: gone for the stream, kept in the table.
    daemon
        .patch(&format!("{ROWS}/b"), r#"{"$set":{"_deletedAt":"2026-01-01T00:00:00Z"}}"#)
        .send()
        .await
        .ok();
    assert_eq!(stream.event().await.name, "delete");
    daemon.get(&format!("{ROWS}/b")).send().await.ok();
    let got = deletes.event().await;
    assert_eq!((got.name.as_str(), got.text("row_id")), ("delete", "a"));
    assert_eq!(got.data["old_record"], json!(null));
    for wrong in ["events=insert,drop", "old=maybe", "filter=%5B%5D", "evnts=insert"] {
        let reply = daemon.get(&format!("{TABLE}/stream?{wrong}")).send().await;
        assert_eq!(reply.status, 400, "{wrong}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_left() {
    let daemon = Start::default().fresh().await;
    let (stream, from) = opened(&daemon, &format!("{TABLE}/stream")).await;
    drop(stream);
    let first = row(&daemon, "a", 1).await;
    let second = row(&daemon, "b", 2).await;
    // Also from before the app existed.
    for (id, expected) in
        [(from, vec!["a", "b"]), (first.to_string(), vec!["b"]), (second.to_string(), vec![])]
    {
        let call = daemon.get(&format!("{TABLE}/stream?lastEventId={first}"));
        // The header wins over the parameter.
        let mut stream = call.header("last-event-id", &id).stream().await;
        let connected = stream.event().await;
        assert_eq!(
            (connected.data["resumed"].clone(), connected.id),
            (json!(true), String::new()),
            "{id}"
        );
        row(&daemon, "c", 3).await;
        for row in expected {
            assert_eq!(stream.event().await.text("row_id"), row);
        }
        assert_eq!(stream.event().await.text("row_id"), "c");
        daemon.delete(&format!("{ROWS}/c")).send().await.ok();
        assert_eq!(stream.event().await.name, "delete");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn it_goes_on_after_a_restart_too() {
    let daemon = Start::default().fresh().await;
    let first = row(&daemon, "a", 1).await;
    let home = daemon.home.clone();
    let dir = daemon.stop().await;
    let daemon = Start::default().in_home(home).await.unwrap();
    let second = row(&daemon, "b", 2).await;
    assert_eq!(second, first + 1, "after a clean stop nothing is skipped");
    let mut stream = daemon
        .get(&format!("{TABLE}/stream"))
        .header("last-event-id", &first.to_string())
        .stream()
        .await;
    assert_eq!(stream.event().await.data["resumed"], true);
    assert_eq!(stream.event().await.text("row_id"), "b");
    daemon.stop().await;
    drop(dir);
}

#[tokio::test]
async fn too_far_behind_is_told_to_read_anew() {
    let daemon = Start::default().set("api.replay_changes", "10").fresh().await;
    let first = row(&daemon, "r0", 0).await;
    for n in 1..=10 {
        row(&daemon, &format!("r{n}"), n).await;
    }
    let resume = |id: u64| {
        daemon.get(&format!("{TABLE}/stream")).header("last-event-id", &id.to_string()).stream()
    };
    let mut stream = resume(first).await;
    stream.event().await;
    for n in 1..=10 {
        assert_eq!(stream.event().await.text("row_id"), format!("r{n}"), "ten fit");
    }
    row(&daemon, "r11", 11).await;
    assert_eq!(stream.event().await.text("row_id"), "r11", "no resync for one that keeps up");
    let head = row(&daemon, "r12", 12).await;

    let mut stream = resume(first).await;
    stream.event().await;
    let mut last = String::new();
    for n in 1..=10 {
        let got = stream.event().await;
        assert_eq!(got.text("row_id"), format!("r{n}"));
        last = got.id;
    }
    let resync = stream.event().await;
    assert_eq!((resync.name.as_str(), resync.text("reason")), ("resync", "backfill_truncated"));
    assert_eq!(
        (resync.text("last_replayed"), resync.text("head")),
        (last.as_str(), &*head.to_string())
    );
    assert_eq!(resync.id, head.to_string());
    row(&daemon, "live", 1).await;
    assert_eq!(stream.event().await.text("row_id"), "live");
    daemon.stop().await;
}

#[tokio::test]
async fn a_slow_reader_of_other_tables_is_bounded_by_entries() {
    let daemon = Start::default().set("api.replay_entries", "50").fresh().await;
    let first = row(&daemon, "a", 0).await;
    let lines: String = (0..200).map(|n| format!("{{\"id\":\"{n}\"}}\n")).collect();
    daemon
        .post("/v1/apps/s/tables/other/import", "")
        .body("application/x-ndjson", lines)
        .send()
        .await
        .ok();
    row(&daemon, "b", 0).await;
    let mut stream = daemon
        .get(&format!("{TABLE}/stream"))
        .header("last-event-id", &first.to_string())
        .stream()
        .await;
    stream.event().await;
    assert_eq!(stream.event().await.text("reason"), "backfill_truncated");
    daemon.stop().await;
}

#[tokio::test]
async fn an_id_that_the_log_does_not_reach_is_answered_by_resync() {
    let daemon =
        Start::default().set("log.entries", "10").set("log.trim_every", "100ms").fresh().await;
    let first = row(&daemon, "r0", 0).await;
    for n in 1..=30 {
        row(&daemon, &format!("r{n}"), n).await;
    }
    // Trimmed to ten at last.
    let oldest = loop {
        row(&daemon, "again", 1).await;
        let mut stream = daemon
            .get(&format!("{TABLE}/stream"))
            .header("last-event-id", &first.to_string())
            .stream()
            .await;
        stream.event().await;
        let got = stream.event().await;
        if got.name == "resync" {
            assert_eq!((got.text("reason"), got.text("table")), ("backfill_expired", "t"));
            let oldest = got.text("oldest").to_owned();
            // What remains follows.
            let next = stream.event().await;
            assert_eq!(next.id, oldest);
            break oldest.parse::<u64>().unwrap();
        }
    };
    for alien in ["0", "7", &(oldest + (1 << 40)).to_string(), "nonsense"] {
        let mut stream =
            daemon.get(&format!("{TABLE}/stream")).header("last-event-id", alien).stream().await;
        assert_eq!(stream.event().await.data["resumed"], false);
        assert_eq!(stream.event().await.text("reason"), "backfill_expired", "{alien}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn heartbeats_limits_and_the_end() {
    let daemon = Start::default()
        .set("api.stream_heartbeat", "100ms")
        .set("api.subscribe_heartbeat", "100ms")
        .set("api.streams_per_app", "2")
        .fresh()
        .await;
    let mut stream = daemon.stream(&format!("{TABLE}/stream")).await;
    stream.event().await;
    stream.comment(": ping\n\n: ping\n\n").await;
    let (second, _) = opened(&daemon, &format!("{TABLE}/stream")).await;
    let refused = daemon.get(&format!("{TABLE}/stream")).send().await;
    refused.refused(429, "stream.limit");
    assert_eq!(refused.head.headers["retry-after"], "5");
    opened(&daemon, "/v1/apps/other/stream").await;
    // The place is free as soon as the client is gone.
    drop(second);
    let mut again = loop {
        let reply = daemon.get(&format!("{TABLE}/stream?events=delete")).send();
        let limited = tokio::select! {
            reply = reply => reply.status == 429,
            () = tokio::time::sleep(std::time::Duration::from_millis(200)) => false,
        };
        if !limited {
            break daemon.stream("/v1/status/stream").await;
        }
    };
    assert_eq!(again.event().await.name, "status");

    daemon.shut_down();
    let closed = stream.event().await;
    assert_eq!(closed.name, "closed");
    assert_eq!(closed.data, json!({"reason":"server_shutdown","retry":"resume","after_ms":500}));
    assert!(stream.next().await.is_none());
    loop {
        let got = again.event().await;
        if got.name == "closed" {
            break;
        }
        assert_eq!(got.name, "status");
    }
    assert!(again.next().await.is_none());
    daemon.stop().await;
}

#[tokio::test]
async fn status_says_how_far_each_app_is() {
    let daemon = Start::default().fresh().await;
    let mut stream = daemon.stream("/v1/status/stream").await;
    let got = stream.event().await;
    assert_eq!((got.name.as_str(), got.text("state")), ("status", "local"));
    let position = row(&daemon, "a", 1).await.to_string();
    let got = stream.event().await;
    assert_eq!(got.data["apps"][0]["id"], "s");
    assert_eq!(got.data["apps"][0]["position"], position);
    assert_eq!(got.data["apps"][0]["pending"], 1);
    assert!(got.data["apps"][0]["pushed"].as_str().unwrap() < position.as_str());
    let status = daemon.get("/v1/status").send().await.ok().json();
    assert_eq!(status, got.data);
    daemon.stop().await;
}

#[tokio::test]
async fn a_transaction_larger_than_a_page_ends_once() {
    let daemon = Start::default().fresh().await;
    let (mut stream, _) = opened(&daemon, &format!("{TABLE}/stream")).await;
    let lines: String = (0..700).map(|n| format!("{{\"id\":\"{n:03}\"}}\n")).collect();
    let import = daemon.post(&format!("{TABLE}/import"), "").body("application/x-ndjson", lines);
    import.send().await.ok();
    let mut first = None;
    for n in 0..700 {
        let got = stream.event().await;
        assert_eq!(got.text("row_id"), format!("{n:03}"), "in the order of the import");
        assert_eq!(got.data["tx_last"], json!(n == 699));
        assert_eq!(got.text("tx"), *first.get_or_insert_with(|| got.id.clone()));
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_breaks_off_again_and_again_misses_nothing() {
    let daemon = std::sync::Arc::new(Start::default().fresh().await);
    row(&daemon, "first", 0).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..3_u64 {
        let daemon = std::sync::Arc::clone(&daemon);
        writers.spawn(async move {
            for n in 0..120_u64 {
                let id = format!("r{}", (n * 7 + writer) % 40);
                if n % 5 == 4 {
                    daemon.delete(&format!("{ROWS}/{id}")).send().await;
                } else {
                    row(&daemon, &id, n * 10 + writer).await;
                }
            }
        });
    }
    // The last row of all tells the reader that nothing more comes.
    let mut ending = tokio::task::JoinSet::new();
    let last_writer = std::sync::Arc::clone(&daemon);
    ending.spawn(async move {
        writers.join_all().await;
        row(&last_writer, "last", 0).await;
    });
    let mut rows = std::collections::BTreeMap::new();
    let mut last = 0_u64;
    'done: for round in 1.. {
        let call =
            daemon.get(&format!("{TABLE}/stream")).header("last-event-id", &last.to_string());
        let mut stream = call.stream().await;
        stream.event().await;
        // A different number of events each time, so that it breaks off anywhere.
        for _ in 0..(round * 7) % 23 + 1 {
            let got = stream.event().await;
            if got.name == "resync" {
                assert_eq!((last, got.text("reason")), (0, "backfill_expired"));
                last = got.id.parse().unwrap();
                continue;
            }
            assert_eq!(got.text("id"), got.id);
            last = got.id.parse().unwrap();
            match got.name.as_str() {
                "delete" => rows.remove(got.text("row_id")),
                _ => rows.insert(got.text("row_id").to_owned(), got.data["record"]["n"].clone()),
            };
            if got.text("row_id") == "last" {
                break 'done;
            }
        }
    }
    let table = daemon.get(&format!("{ROWS}?limit=1000")).send().await.ok().json();
    let records = table["records"].as_array().unwrap().iter();
    let stored = records.map(|row| (row["id"].as_str().unwrap().to_owned(), row["n"].clone()));
    assert_eq!(rows, stored.collect());
    ending.join_all().await;
    let daemon = std::sync::Arc::into_inner(daemon).unwrap();
    daemon.stop().await;
}
