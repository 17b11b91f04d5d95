//! What hostile input costs in memory: the peak of the real program, as the kernel counts it.

use http::Method;
use tidings_wire::limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::cli::Running;
use crate::fixture::{Session, within};

/// The peak of resident memory since it was reset, in bytes.
struct Peak(u32);

impl Peak {
    fn reset(&self) -> u64 {
        // proc(5): 5 sets the peak to what is resident now.
        std::fs::write(format!("/proc/{}/clear_refs", self.0), "5").unwrap();
        self.read()
    }

    fn read(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }
}

/// What the allocator keeps for itself between two looks.
const NOISE: u64 = 4 << 20;

async fn costs_less_than_twice(
    peak: &Peak,
    limit: usize,
    what: &str,
    input: impl Future<Output = ()>,
) {
    let before = peak.reset();
    within(input).await;
    let grown = peak.read().saturating_sub(before);
    let most = 2 * limit as u64 + NOISE;
    assert!(grown <= most, "{what} took {grown} bytes, more than {most}");
}

/// Sends a head and then the same bytes again and again until the server hangs up.
async fn pour(server: &Running, head: &str, chunk: &[u8]) {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(head.as_bytes()).await;
    let (mut read, mut write) = stream.split();
    let mut answer = vec![0; 4_096];
    tokio::select! {
        _ = async { while write.write_all(chunk).await.is_ok() {} } => {}
        _ = async { while read.read(&mut answer).await.is_ok_and(|read| read > 0) {} } => {}
    }
}

async fn refused(session: &Session, path: &str, kind: &str, body: Vec<u8>) {
    let reply = session.send(Method::POST, path, &[("content-type", kind)], body).await;
    assert!(reply.status.is_client_error(), "{}", reply.status);
}

#[tokio::test]
async fn hostile_input_is_refused_before_it_is_allocated() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::start(dir.path(), &["--store", "memory:", "--set", "registration=open"]);
    let peak = Peak(server.child.id());
    let a = crate::fixture::session::create(&server.client(), None).await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 1).await;
    let push = "/api/sync/push?app_id=notes";
    let cbor = "application/cbor";
    let (json, most) = (limits::JSON_REQUEST, limits::PUSH_REQUEST);

    // A whole limit of what means nothing, of tiny blobs, of one blob, of nested lists.
    let tiny = [&b"\x82\x9f"[..], &vec![0x40; most - 2]].concat();
    costs_less_than_twice(&peak, most, "tiny blobs", refused(&a, push, cbor, tiny)).await;
    let one = [&b"\x82\x81\x5a\x00\xbf\xff\xf0"[..], &vec![0; 12_582_896]].concat();
    costs_less_than_twice(&peak, most, "one large blob", refused(&a, push, cbor, one)).await;
    let nested = [&b"\x83\x80\x40"[..], &vec![0x81; most - 3]].concat();
    costs_less_than_twice(&peak, most, "nested lists", refused(&a, push, cbor, nested)).await;
    let manifests = [&b"\x81\x9a\x00\x00\x03\xe8"[..], &vec![0x40; 1_000]].concat();
    let path = "/api/sync/manifests";
    costs_less_than_twice(&peak, most, "no manifests", refused(&a, path, cbor, manifests)).await;
    for (what, text) in [
        ("nested JSON", "[".repeat(json)),
        ("a long text", format!("{{\"account_id\":\"{}\"}}", "a".repeat(json - 20))),
        ("many fields", format!("{{{}\"a\":1}}", "\"a\":1,".repeat(json / 7 - 2))),
    ] {
        let chain = refused(&a, "/api/chain", "application/json", text.into_bytes());
        costs_less_than_twice(&peak, json, what, chain).await;
    }
    // More than the limit, announced or not, and a head without end.
    let over = refused(&a, push, cbor, vec![0; most + 1]);
    costs_less_than_twice(&peak, most, "one byte over", over).await;
    let bearer = format!("authorization: Bearer {}", a.token.token);
    let head = format!("POST {push} HTTP/1.1\r\nhost: x\r\n{bearer}\r\n");
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    let chunk = [b"10000\r\n".to_vec(), vec![0; 65_536], b"\r\n".to_vec()].concat();
    let endless = pour(&server, &chunked, &chunk);
    costs_less_than_twice(&peak, most, "chunks without end", endless).await;
    let lie = format!("{head}content-length: 99999999999999\r\n\r\n");
    costs_less_than_twice(&peak, json, "a length that lies", pour(&server, &lie, &[0; 65_536]))
        .await;
    let headers = pour(&server, &head, b"x-more: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n");
    costs_less_than_twice(&peak, limits::REQUEST_HEAD, "a head without end", headers).await;
    assert_eq!(a.pull_all("notes", "").await.len(), 0);
    assert_eq!(server.client().get("/readyz").await.status, 200);
}
