//! Hostile and careless clients: limits, media types, credentials, addresses.

use std::time::Duration;

use crate::support::{Start, raw, soon};

const ROWS: &str = "/v1/apps/h/tables/t/rows";

#[tokio::test]
async fn nobody_gets_in_without_the_token() {
    let daemon = Start::default().fresh().await;
    for path in ["/v1/status", "/v1/apps", ROWS, "/v1/apps/h/tables/t/stream"] {
        daemon.get(path).without("authorization").send().await.refused(401, "auth.required");
        let wrong = daemon.get(path).header("authorization", "Bearer 00");
        wrong.send().await.refused(401, "auth.token_invalid");
        let basic = daemon.get(path).header("authorization", "Basic Og==").send().await;
        basic.refused(401, "auth.required");
        assert_eq!(basic.head.headers["www-authenticate"], "Bearer");
    }
    for open in ["/v1/ping", "/v1/health"] {
        daemon.get(open).without("authorization").send().await.ok();
    }
    let by_query = format!("/v1/apps/h/tables/t/stream?access_token={}", daemon.token);
    daemon.get(&by_query).without("authorization").stream().await;
    let by_query = format!("{ROWS}?access_token={}", daemon.token);
    daemon.get(&by_query).without("authorization").send().await.refused(401, "auth.required");
    daemon.stop().await;
}

#[tokio::test]
async fn web_pages_are_turned_away() {
    let daemon = Start::default().fresh().await;
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("referer", "https://evil.example/"),
        ("sec-fetch-site", "cross-site"),
    ] {
        daemon.get("/v1/ping").header(name, value).send().await.refused(403, "request.bad_origin");
    }
    for host in ["evil.example", "127.0.0.1", "localhost.evil.example", ""] {
        daemon.get("/v1/ping").header("host", host).send().await.refused(403, "request.bad_host");
    }
    daemon.get("/v1/ping").header("host", "localhost").send().await.ok();
    let missing = raw(daemon.socket(), b"GET /v1/ping HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    assert!(missing.starts_with(b"HTTP/1.1 403"), "{}", String::from_utf8_lossy(&missing));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let call = daemon.post(ROWS, "").body(kind, r#"{"id":"1"}"#);
        call.send().await.refused(415, "request.unsupported_media_type");
    }
    daemon
        .post(ROWS, "{}")
        .without("content-type")
        .send()
        .await
        .refused(415, "request.unsupported_media_type");
    daemon
        .post(ROWS, "")
        .body("application/json; charset=utf-8", r#"{"id":"1"}"#)
        .send()
        .await
        .ok();
    daemon.stop().await;
}

#[tokio::test]
async fn routes_and_methods_that_do_not_exist() {
    let daemon = Start::default().fresh().await;
    for path in ["/", "/v1", "/v1/nothing", "/v2/status", "/v1/apps/a/tables/t/rows/1/2"] {
        daemon.get(path).send().await.refused(404, "route.not_found");
    }
    daemon.delete("/v1/status").send().await.refused(405, "route.method_not_allowed");
    daemon.put(ROWS, "{}").send().await.refused(405, "route.method_not_allowed");
    daemon.stop().await;
}

#[tokio::test]
async fn rows_and_bodies_have_limits() {
    let daemon = Start::default().fresh().await;
    // As CBOR: a map head, "t" in 2 bytes, a 5-byte head, the text.
    let row = |len: usize| format!(r#"{{"id":"r","t":"{}"}}"#, "x".repeat(len));
    let most = (256 << 10) - 8;
    daemon.post(ROWS, row(most)).send().await.ok();
    daemon.put(&format!("{ROWS}/r"), row(most + 1)).send().await.refused(413, "request.too_large");
    // A patch must not grow a row past it either.
    daemon
        .patch(&format!("{ROWS}/r"), r#"{"$set":{"u":1}}"#)
        .send()
        .await
        .refused(413, "request.too_large");

    let pad = |len: usize| format!(r#"{{"id":"s"{}}}"#, " ".repeat(len - r#"{"id":"s"}"#.len()));
    daemon.post(ROWS, pad(1 << 20)).send().await.ok();
    let error = daemon.put(&format!("{ROWS}/s"), pad((1 << 20) + 1)).send().await;
    assert_eq!(error.refused(413, "request.too_large")["details"]["limit"], 1 << 20);

    // A length that is announced is refused before a byte of it came.
    let head = format!(
        "POST {ROWS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 99999999999\r\nConnection: close\r\n\r\n",
        daemon.token
    );
    let answer = raw(daemon.socket(), head.as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&answer));

    // So is one that never ends.
    let mut endless = head.replace("Content-Length: 99999999999", "Transfer-Encoding: chunked");
    for _ in 0..40 {
        endless.push_str("10000\r\n");
        endless.push_str(&"x".repeat(0x10000));
        endless.push_str("\r\n");
    }
    let answer = raw(daemon.socket(), endless.as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&answer));
    daemon.stop().await;
}

#[tokio::test]
async fn deep_and_broken_json_is_refused() {
    let daemon = Start::default().fresh().await;
    let nested =
        |levels: usize| format!(r#"{{"id":"d","a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    daemon.post(ROWS, nested(63)).send().await.ok();
    daemon.put(&format!("{ROWS}/d"), nested(64)).send().await.refused(400, "request.too_deep");
    daemon.post(ROWS, "[".repeat(200_000)).send().await.refused(400, "request.too_deep");
    for broken in ["", "{", "nul", "{\"a\":01}", "{\"a\":NaN}", "\u{feff}{}", "{'a':1}", "{}{}"] {
        daemon.post(ROWS, broken).send().await.refused(400, "request.bad_json");
    }
    let not_utf8 = daemon.post(ROWS, "").bytes("application/json", &b"{\"a\":\"\xff\"}"[..]);
    not_utf8.send().await.refused(400, "request.bad_json");
    let error = daemon.post(ROWS, "{\n \"a\": x}").send().await.refused(400, "request.bad_json");
    assert_eq!((&error["details"]["line"], &error["details"]["column"]), (&2.into(), &7.into()));
    daemon.post(ROWS, r#"{"a":1,"a":2}"#).send().await.refused(400, "row.invalid");
    daemon.stop().await;
}

#[tokio::test]
async fn slow_and_rude_clients_are_cut_off() {
    let daemon = Start::default()
        .set("api.header_timeout", "300ms")
        .set("api.body_idle", "300ms")
        .fresh()
        .await;
    let slow = raw(daemon.socket(), b"GET /v1/ping HTTP/1.1\r\nHost: loc").await;
    assert!(slow.is_empty() || slow.starts_with(b"HTTP/1.1 408"), "{slow:?}");
    let head = format!(
        "POST {ROWS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        daemon.token
    );
    let answer = raw(daemon.socket(), head.as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
    let mut many = String::from("GET /v1/ping HTTP/1.1\r\nHost: localhost\r\n");
    (0..100).for_each(|n| many.push_str(&format!("x-{n}: 1\r\n")));
    let answer = raw(daemon.socket(), format!("{many}\r\n").as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    let long = format!("GET /v1/ping?{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(70_000));
    let answer = raw(daemon.socket(), long.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
    soon("an ordinary answer", daemon.get("/v1/ping").send()).await.ok();
    daemon.stop().await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off() {
    let daemon = Start::default().set("api.write_stall", "300ms").fresh().await;
    let big = "x".repeat(200_000);
    for n in 0..20 {
        let row = format!(r#"{{"id":"{n}","t":"{big}"}}"#);
        daemon.post(ROWS, row).send().await.ok();
    }
    let first = daemon.get("/v1/apps/h").send().await.json()["position"]
        .as_str()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        - 20;
    let mut client = tokio::net::UnixStream::connect(daemon.socket()).await.unwrap();
    let head = format!(
        "GET /v1/apps/h/tables/t/stream?lastEventId={first} HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {}\r\n\r\n",
        daemon.token
    );
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    client.write_all(head.as_bytes()).await.unwrap();
    // Not one byte is read before the cut.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut got = 0;
    let mut piece = vec![0; 1 << 16];
    soon("the cut", async {
        loop {
            match client.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(n) => got += n,
            }
        }
    })
    .await;
    assert!(got < 20 * 200_000, "the whole stream came: {got}");
    daemon.stop().await;
}

/// Runs in a process of its own under another user; only root can start one.
#[test]
fn another_user_is_turned_away() {
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    const SOCKET: &str = "TIDINGS_TEST_PEER_SOCKET";
    if let Some(socket) = std::env::var_os(SOCKET) {
        use std::io::Write as _;
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        let _ = stream.write_all(b"GET /v1/ping HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "closed without a word");
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let daemon = Start::default().fresh().await;
        // What the permissions keep away otherwise.
        let open = |path: &std::path::Path| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        };
        open(daemon.socket());
        open(daemon.home.data());
        open(daemon.home.data().parent().unwrap());
        let program = daemon.home.data().join("test");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        open(&program);
        let socket = daemon.socket().to_owned();
        let output = tokio::task::spawn_blocking(move || {
            std::process::Command::new(program)
                .args(["local::hostile::another_user_is_turned_away", "--exact", "--nocapture"])
                .env(SOCKET, socket)
                .uid(65_534)
                .gid(65_534)
                .output()
                .unwrap()
        });
        let output = output.await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        daemon.get("/v1/ping").send().await.ok();
        daemon.stop().await;
    });
}
