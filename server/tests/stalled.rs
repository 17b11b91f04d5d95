//! Readers that stop reading: bounded memory, one word for all they missed, an end, and nobody
//! else who notices.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::fixture::reader::{Reader, open_become, small};
use crate::fixture::{Session, TestServer, within};

const CHANGED: &str = "event: changed\ndata:\n\n";

/// Long names fill buffers sooner.
const LONG: &str = "an-app-with-a-long-name-of-sixty-four-characters-that-fills-much";

/// Bytes that the kernel holds back for a connection, on the server's side of it.
fn queued(server: SocketAddr, client: SocketAddr) -> u64 {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|row| {
        row.len() > 4 && row[1].ends_with(&port(server)) && row[2].ends_with(&port(client))
    });
    row.map_or(0, |row| u64::from_str_radix(row[4].split(':').next().unwrap(), 16).unwrap())
}

/// Publishes, each time until a reader who keeps up has heard.
async fn publish<S: AsyncRead + AsyncWrite + Unpin>(
    server: &TestServer,
    session: &Session,
    channel: &str,
    count: usize,
    quick: &mut Reader<S>,
) {
    for _ in 0..count {
        server.server.shared().hub.publish(session.account(), channel, None);
        quick.until(CHANGED).await;
    }
}

#[tokio::test]
async fn a_stalled_reader_is_bounded_and_cut_and_delays_nobody() {
    let server = TestServer::start(&[
        ("stream.keepalive", "1s"),
        // The system's own limit for what is not taken comes later.
        ("timeouts.write_stall", "60s"),
    ])
    .await;
    let a = server.account().await;
    let slow = Reader::begin(small(server.address()).await, &a, "notes").await;
    let mut quick = Reader::open(&server, &a, "notes").await;
    let client = slow.socket.local_addr().unwrap();
    let mut most = 0;
    for _ in 0..20 {
        publish(&server, &a, "notes", 200, &mut quick).await;
        most = most.max(queued(server.address(), client));
    }
    assert!((1..=16 << 10).contains(&most), "the kernel held {most} bytes");
    // It never reads again and is gone; the other hears on.
    open_become(&server, 1).await;
    publish(&server, &a, "notes", 100, &mut quick).await;
    drop(slow);
}

/// Stops reading, misses thousands of changes, reads again: every frame is whole, and each
/// channel was told of once for all that was missed.
async fn resumes<S: AsyncRead + AsyncWrite + Unpin>(
    server: &TestServer,
    session: &Session,
    mut slow: Reader<S>,
    mut quick: Reader<TcpStream>,
) {
    const MISSED: usize = 3_000;
    publish(server, session, LONG, MISSED, &mut quick).await;
    for channel in [LONG, "b", "last"] {
        server.server.shared().hub.publish(session.account(), channel, None);
    }
    let text = slow.until("data: last\n\n").await;
    let frames: Vec<_> = text.split_terminator("\n\n").collect();
    let of = |name: &str| format!("event: changed\ndata: {name}");
    let long = of(LONG);
    let told = frames.iter().filter(|frame| **frame == long).count();
    assert!(told < MISSED / 2, "{told} of {MISSED} came");
    assert_eq!(told + 2, frames.len(), "a frame was cut: {text}");
    assert_eq!(frames[told - 1], long);
    assert_eq!(frames[told..], [of("b"), of("last")]);
    // It is a stream like any other again.
    server.server.shared().hub.publish(session.account(), "b", None);
    assert_eq!(slow.until("\n\n").await, "event: changed\ndata: b\n\n");
}

#[tokio::test]
async fn a_reader_that_reads_again_is_told_once_for_all_it_missed() {
    let server = TestServer::start(&[]).await;
    let a = server.account().await;
    let slow = Reader::begin(small(server.address()).await, &a, "*").await;
    let quick = Reader::open(&server, &a, LONG).await;
    resumes(&server, &a, slow, quick).await;
}

#[tokio::test]
async fn so_is_one_over_tls() {
    let files = crate::tls::Files::new();
    let cert = files.renew();
    let server = files.server(&[]).await;
    let front = crate::tls::front(&server, &cert).await;
    let a = crate::fixture::session::create(&front.client(), None).await;
    let socket = small(server.address()).await;
    let socket = crate::tls::secure(socket, &cert, &rustls::version::TLS13, &[]).await.unwrap();
    let slow = Reader::begin(socket, &a, "*").await;
    let quick = TcpStream::connect(front.address).await.unwrap();
    let quick = Reader::begin(quick, &a, LONG).await;
    resumes(&server, &a, slow, quick).await;
}

/// Field case O06: a slow subscriber must not take other people's events with it, nor lose its own
/// without a word.
#[tokio::test]
async fn o06_a_slow_subscriber_loses_nothing_and_takes_nothing_from_others() {
    let server = TestServer::start(&[]).await;
    let mut u = server.account().await;
    let x = u.link().await;
    let mut v = server.account().await;
    let y = v.link().await;
    let mut slow = Reader::begin(small(server.address()).await, &x, "notes").await;
    let mut other = Reader::open(&server, &y, "notes").await;
    let client = slow.socket.local_addr().unwrap();
    let (mut of_u, mut of_v) = (u.book("notes"), v.book("notes"));
    for burst in 1..=50 {
        for _ in 0..4 {
            u.write(&mut of_u, 1, 1).await;
        }
        v.write(&mut of_v, 1, 1).await;
        assert_eq!(other.until("\n\n").await, CHANGED, "burst {burst}");
        assert!(queued(server.address(), client) <= 16 << 10);
    }
    assert_eq!(slow.until("\n\n").await, CHANGED);
    assert_eq!(x.pull_all("notes", "").await.len(), 200);
    assert_eq!(y.pull_all("notes", "").await.len(), 50);
    within(async { u.write(&mut of_u, 1, 1).await }).await;
}
