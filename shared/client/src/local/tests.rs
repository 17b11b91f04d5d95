//! The client against prepared answers on a Unix socket.

use std::{io, path::PathBuf, time::Duration};

use bytes::Bytes;
use http::Method;
use serde_json::json;
use tidings_wire::{
    AppId, Code,
    local::{BatchRequest, ChangeKind, LogPosition, QueryRequest, Record},
    sse::Frame,
};

use super::*;
use crate::{
    ErrorKind,
    testing::{Server, Step, answer, stream_head, within},
};

const WRITTEN: &str =
    r#"{"id":"1","_ver":{"id":"00000000000000000000000000000000","position":"7"},"position":"7"}"#;

struct Fake {
    client: Client,
    server: Server,
    _dir: tempfile::TempDir,
}

fn fake(steps: Vec<Step>) -> Fake {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("tidings.sock");
    let server = Server::unix(&socket, steps);
    let client = Client::new(&socket).with_token("0WNER").unwrap();
    Fake { client, server, _dir: dir }
}

fn answering(body: &str) -> Fake {
    fake(vec![Step::Send(answer("200 OK", "application/json", body.as_bytes()))])
}

fn app() -> AppId {
    "notes".parse().unwrap()
}

fn record(value: serde_json::Value) -> Record {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn a_write_is_sent_as_the_api_reads_it() {
    let mut fake = answering(WRITTEN);
    let client = fake.client.with_name("org.example.notes").unwrap();
    let row = record(json!({"t": "a"}));
    let put = within(client.put(&app(), "to do", "a/b", &row, Some("7"))).await.unwrap();
    assert_eq!((put.id.as_str(), put.position), ("1", LogPosition(7)));
    let request = fake.server.request().await;
    let lower = request.to_ascii_lowercase();
    assert!(request.starts_with("PUT /v1/apps/notes/tables/to%20do/rows/a%2Fb HTTP/1.1\r\n"));
    for header in [
        "host: tidings.localhost",
        "authorization: bearer 0wner",
        "tidings-client: org.example.notes",
        "content-type: application/json",
        "if-match: \"7\"",
    ] {
        assert!(lower.contains(&format!("\r\n{header}\r\n")), "no {header} in {request}");
    }
    assert!(request.ends_with("\r\n\r\n{\"t\":\"a\"}"), "{request}");
}

#[tokio::test]
async fn a_store_that_takes_no_writes_is_an_answer_and_not_an_error() {
    let body = r#"{"ok":false,"version":"0.1.0","pid":1}"#;
    let refusal = answer("503 Service Unavailable", "application/json", body.as_bytes());
    let fake = fake(vec![Step::Send(refusal)]);
    assert!(!within(fake.client.health()).await.unwrap().ok);
}

#[tokio::test]
async fn each_call_has_its_route() {
    let mut fake = answering(WRITTEN);
    let (client, app) = (fake.client.clone(), app());
    let row = record(json!({"id": "1"}));
    within(client.insert(&app, "t", &row)).await.unwrap();
    within(client.patch(&app, "t", "1", &json!({"$set": {"a": 1}}), None)).await.unwrap();
    within(client.merge_patch(&app, "t", "1", &row, None)).await.unwrap();
    within(client.delete(&app, "t", "1", None)).await.unwrap();
    within(client.row(&app, "t", "1")).await.unwrap();
    // The answers below do not fit these calls; only what was sent counts.
    let _ = within(client.query(&app, "t", &QueryRequest::default())).await;
    let batch = BatchRequest { ops: Vec::new(), atomic: true, mutation_id: None };
    let _ = within(client.batch(&app, &batch)).await;
    let _ = within(client.tables(&app)).await;
    let _ = within(client.apps()).await;
    let _ = within(client.status()).await;
    let _ = within(client.import_ndjson(&app, "t", Bytes::from_static(b"{}\n"))).await;
    for line in [
        "POST /v1/apps/notes/tables/t/rows",
        "PATCH /v1/apps/notes/tables/t/rows/1",
        "PATCH /v1/apps/notes/tables/t/rows/1",
        "DELETE /v1/apps/notes/tables/t/rows/1",
        "GET /v1/apps/notes/tables/t/rows/1",
        "POST /v1/apps/notes/tables/t/query",
        "POST /v1/apps/notes/batch",
        "GET /v1/apps/notes/tables",
        "GET /v1/apps",
        "GET /v1/status",
        "POST /v1/apps/notes/tables/t/import",
    ] {
        let request = fake.server.request().await;
        assert!(request.starts_with(&format!("{line} HTTP/1.1")), "{line}: {request}");
    }
}

#[tokio::test]
async fn a_merge_patch_says_so() {
    let mut fake = answering(WRITTEN);
    within(fake.client.merge_patch(&app(), "t", "1", &json!({"a": null}), None)).await.unwrap();
    let request = fake.server.request().await.to_ascii_lowercase();
    assert!(request.contains("\r\ncontent-type: application/merge-patch+json\r\n"), "{request}");
    assert_eq!(request.matches("content-type").count(), 1);
}

#[tokio::test]
async fn the_position_of_an_answer_is_kept() {
    let bytes = b"HTTP/1.1 200 OK\r\ntidings-position: 4503599627370496\r\netag: \"9\"\r\n\
                  content-length: 2\r\n\r\n{}";
    let fake = fake(vec![Step::Send(bytes.to_vec())]);
    let reply = within(fake.client.request(Request::new(Method::GET, "/v1/x"))).await.unwrap();
    assert_eq!(reply.position(), Some(LogPosition(1 << 52)));
    assert_eq!(reply.etag(), Some("\"9\""));
}

#[tokio::test]
async fn large_integers_arrive_digit_by_digit() {
    let fake = answering(r#"{"id":"d","n":18446744073709551615,"m":9196877626998785}"#);
    let row = within(fake.client.row(&app(), "t", "d")).await.unwrap();
    assert_eq!(row["n"], json!(18_446_744_073_709_551_615_u64));
    assert_eq!(row["m"].to_string(), "9196877626998785");
}

#[tokio::test]
async fn no_daemon_is_told_from_everything_else() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("tidings.sock");
    let stale = dir.path().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for socket in [missing, stale, file] {
        let error = within(Client::new(&socket).ping()).await.unwrap_err();
        let LocalError::NoDaemon { socket: named, .. } = &error else { panic!("{error}") };
        assert_eq!(*named, socket);
        assert_eq!(error.kind(), ErrorKind::Retry);
    }
    let long = PathBuf::from(format!("/{}", "x".repeat(150)));
    let error = within(Client::new(long).ping()).await.unwrap_err();
    assert!(matches!(error, LocalError::NoDaemon { .. }), "{error}");
}

#[tokio::test]
async fn problems_keep_their_words() {
    let body = br#"{"error":{"code":"row.version_mismatch","message":"it changed"}}"#;
    let fake = fake(vec![Step::Send(answer("412 Precondition Failed", "application/json", body))]);
    let error = within(fake.client.delete(&app(), "t", "1", Some("\"3\""))).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::VersionMismatch));
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert_eq!(error.to_string(), "it changed (row.version_mismatch)");
}

#[tokio::test]
async fn a_cut_answer_is_an_interruption() {
    let whole = answer("200 OK", "application/json", WRITTEN.as_bytes());
    for end in [whole.len() - 1, whole.len() - WRITTEN.len(), 20] {
        let fake = fake(vec![Step::Send(whole[..end].to_vec())]);
        let error = within(fake.client.row(&app(), "t", "1")).await.unwrap_err();
        assert!(matches!(error, LocalError::Interrupted(_)), "at {end}: {error}");
    }
    let fake = fake(vec![Step::Hang]);
    let timeouts = Timeouts { answer: Duration::from_millis(50), ..Timeouts::default() };
    let error = within(fake.client.with_timeouts(timeouts).ping()).await.unwrap_err();
    assert!(matches!(error, LocalError::Timeout), "{error}");
}

#[tokio::test]
async fn an_upload_goes_out_as_it_comes() {
    let mut fake = answering(r#"{"rows":2,"position":"9"}"#);
    let pieces: Vec<io::Result<Bytes>> = vec![
        Ok(Bytes::from_static(b"{\"id\":\"1\"}\n{\"id\"")),
        Ok(Bytes::from_static(b":\"2\"}\n")),
    ];
    let pieces = tokio_stream::iter(pieces);
    let answer = within(fake.client.import_stream(&app(), "t", pieces)).await.unwrap();
    assert_eq!(answer.rows, 2);
    let request = fake.server.request().await;
    assert!(request.contains("application/x-ndjson"), "{request}");
    assert!(request.contains("{\"id\":\"1\"}\n{\"id\""), "{request}");
}

#[tokio::test]
async fn a_refusal_in_the_middle_of_an_upload_is_heard() {
    let body = br#"{"error":{"code":"row.invalid","message":"row 3"}}"#;
    let early = Step::EarlyAnswer(answer("400 Bad Request", "application/json", body));
    let fake = fake(vec![early, Step::Hang]);
    let pieces = tokio_stream::pending::<io::Result<Bytes>>();
    let error = within(fake.client.import_stream(&app(), "t", pieces)).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::RowInvalid), "{error}");
}

#[tokio::test]
async fn a_stream_is_watched_and_resumed() {
    let frames = [
        Frame::new().retry(Duration::from_secs(1)).event(Some("connected"), Some("5"), "{}"),
        Frame::new().event(Some("update"), Some("6"), "{\"type\":\"update\"}"),
    ]
    .map(|frame| frame.unwrap().finish())
    .concat();
    let steps =
        vec![Step::Send(stream_head()), Step::Send(frames), Step::Send(b": ping\n\n".to_vec())];
    let mut fake = fake(steps);
    let options = WatchOptions {
        events: vec![ChangeKind::Update, ChangeKind::Delete],
        filter: Some(json!({"a": 1})),
        old: Some(OldRecord::None),
        last_event_id: Some("4".to_owned()),
        ..WatchOptions::default()
    };
    let mut stream = within(fake.client.watch(&app(), &["t".into()], &options)).await.unwrap();
    assert_eq!(stream.last_event_id(), "4");
    let mut names = Vec::new();
    while let Some(event) = within(stream.next()).await.unwrap() {
        names.push(event.name);
    }
    assert_eq!(names, ["connected", "update"]);
    assert_eq!(stream.last_event_id(), "6");
    assert_eq!(stream.retry(), Some(Duration::from_secs(1)));
    let request = fake.server.request().await.to_ascii_lowercase();
    let line = "get /v1/apps/notes/tables/t/stream?\
                events=update%2cdelete&filter=%7b%22a%22%3a1%7d&old=none http/1.1";
    assert_eq!(request.lines().next().unwrap(), line);
    assert!(request.contains("\r\nlast-event-id: 4\r\n"), "{request}");
    assert!(request.contains("\r\naccept: text/event-stream\r\n"), "{request}");

    for (tables, path) in [
        (vec![], "get /v1/apps/notes/stream http/1.1"),
        (vec!["a".into(), "b".into()], "get /v1/apps/notes/stream?tables=a%2cb http/1.1"),
    ] {
        within(fake.client.watch(&app(), &tables, &WatchOptions::default())).await.unwrap();
        let request = fake.server.request().await.to_ascii_lowercase();
        assert_eq!(request.lines().next().unwrap(), path);
        assert!(!request.contains("last-event-id"));
    }
}

#[tokio::test]
async fn a_stream_that_fails_says_how() {
    let body = br#"{"error":{"code":"stream.limit","message":"too many","retryAfter":3}}"#;
    let refusing =
        fake(vec![Step::Send(answer("429 Too Many Requests", "application/json", body))]);
    let error = within(refusing.client.watch_status()).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));

    let silent = fake(vec![Step::Send(stream_head()), Step::Hang]);
    let timeouts = Timeouts { silence: Duration::from_millis(50), ..Timeouts::default() };
    let mut stream = within(silent.client.with_timeouts(timeouts).watch_status()).await.unwrap();
    assert!(matches!(within(stream.next()).await, Err(LocalError::Timeout)));

    let plain = answering("{}");
    let error = within(plain.client.watch_status()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

#[test]
fn what_fits_into_no_header_is_refused() {
    let client = Client::new("/nowhere");
    assert!(client.with_token("a\nb").is_err());
    assert!(client.with_name("\u{7f}").is_err());
    assert!(!format!("{:?}", client.with_token("S3CRET").unwrap()).contains("S3CRET"));
}
