//! O03: an `id` line with a NUL wipes the id already read instead of being ignored.

use serde_json::json;
use tidings_client::local::Client;
use tidings_tests::feed::Feed;
use tidings_tests::{DEADLINE, Device, Process, eventually, within};
use tidings_wire::AppId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const PIECE: &[u8] = b"id: 123\nid: bad\x00id\ndata: hello\n\n";

#[tokio::test(flavor = "multi_thread")]
async fn o03_an_id_with_a_nul_is_passed_over() {
    let app: AppId = "notes".parse().unwrap();
    let feed = Feed::start();
    feed.serve(&[PIECE]);
    let client = Client::new(feed.socket());
    let mut stream = client.watch(&app, &["t".to_owned()], &Default::default()).await.unwrap();
    let event = within("an event", DEADLINE, stream.next()).await.unwrap().unwrap();
    assert_eq!((event.data.as_str(), stream.last_event_id()), ("hello", "123"));
    assert!(within("the end", DEADLINE, stream.next()).await.unwrap().is_none());
    assert_eq!(stream.last_event_id(), "123");
}

#[tokio::test(flavor = "multi_thread")]
async fn o03_the_command_line_resumes_after_the_id_before() {
    let feed = Feed::start();
    feed.serve(&[b"retry: 100\n", PIECE]);
    let mut watch = feed.command(&["--app", "notes", "--json", "watch", "t"]);
    let _watch = Process::start("tidings watch", &mut watch);
    let again = eventually("it connects again", DEADLINE, async || {
        feed.requests().get(1).cloned().ok_or("it has not")
    })
    .await;
    let again = again.to_ascii_lowercase();
    assert!(again.contains("last-event-id: 123\r\n"), "{again}");
    assert!(!again.contains('\0'));
}

#[tokio::test(flavor = "multi_thread")]
async fn o03_the_daemon_writes_only_plain_lines() {
    let app: AppId = "notes".parse().unwrap();
    let device = Device::start("d").await;
    let token = std::fs::read_to_string(device.home().join("owner-token")).unwrap();
    let table = "t\r\nid: 1";
    device.put(&app, table, "r", &json!({})).await;
    let mut stream = tokio::net::UnixStream::connect(device.socket()).await.unwrap();
    let request = format!(
        "GET /v1/apps/{app}/stream HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {}\r\n\r\n",
        token.trim()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    let mut until = async |text: &str| {
        let read = async {
            while !got.windows(text.len()).any(|window| window == text.as_bytes()) {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                assert!(read > 0, "the stream ended");
                got.extend_from_slice(&buffer[..read]);
            }
        };
        within(&format!("{text:?} on the stream"), DEADLINE, read).await;
    };
    until("event: connected").await;
    for id in ["line\nbreak", "carriage\rreturn", "id: 7\n\nevent: delete"] {
        device.put(&app, table, id, &json!({ "text": "a\r\nb\u{2028}c\n\n" })).await;
    }
    device.put(&app, table, "last one", &json!({})).await;
    until("last one").await;
    let body = got.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    // Chunks are framed by CRLF: what is between them is the daemon's.
    let text = String::from_utf8(got[body..].to_vec()).unwrap();
    let known = ["id: ", "event: ", "data: ", "retry: ", ": "];
    let mut events = 0;
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        assert!(!line.contains(['\r', '\0']), "{line:?}");
        let is_chunk = line.len() <= 8 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_known = known.iter().any(|start| line.starts_with(start));
        assert!(is_known || is_chunk, "{line:?}");
        if let Some(id) = line.strip_prefix("id: ") {
            assert!(id.bytes().all(|byte| byte.is_ascii_digit()), "{line:?}");
        }
        events += usize::from(line.starts_with("event: insert"));
    }
    assert_eq!(events, 4);
    device.put(&app, table, "it goes on", &json!({})).await;
}
