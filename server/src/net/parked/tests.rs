//! Frames that are far larger than a socket takes at once come whole, in the order they were sent.

use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll};
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

/// Not much below what rustls would hold back, and far more than the kernel does.
const LARGE: usize = 60_000;
const DEADLINE: Duration = Duration::from_secs(30);

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(1_024).unwrap();
    let client = socket.connect(listener.local_addr().unwrap());
    let (client, accepted) = tokio::join!(client, listener.accept());
    (accepted.unwrap().0, client.unwrap())
}

fn frame(seed: u8) -> Bytes {
    (0..LARGE).map(|at| seed.wrapping_add((at % 251) as u8)).collect::<Vec<_>>().into()
}

/// Sends frames one by one, each held at first; the reader reads only once that has happened.
async fn comes_whole(mut sink: Outlet, mut reader: impl AsyncRead + Unpin) {
    let mut poll = Poll::new().unwrap();
    sink.arm(poll.registry(), Token(0), Wake::Reader).unwrap();
    for seed in 0..3 {
        let frame = frame(seed);
        assert_eq!(sink.send(&frame).unwrap(), Sent::Held);
        sink.arm(poll.registry(), Token(0), Wake::Room).unwrap();
        let mut come = vec![0; frame.len()];
        let reading = timeout(DEADLINE, reader.read_exact(&mut come));
        let resuming = async {
            let mut events = Events::with_capacity(4);
            let mut wakes = 0;
            loop {
                poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
                if events.is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                wakes += 1;
                sink.peer().unwrap();
                if sink.flush().unwrap() == Sent::Whole {
                    return wakes;
                }
            }
        };
        let (read, wakes) = tokio::join!(reading, timeout(DEADLINE, resuming));
        read.unwrap().unwrap();
        assert!(wakes.unwrap() > 0);
        assert!(come == frame, "frame {seed} is another");
        sink.arm(poll.registry(), Token(0), Wake::Reader).unwrap();
    }
    sink.bye(&Bytes::from_static(b"the end"));
    drop(sink);
    let mut rest = String::new();
    timeout(DEADLINE, reader.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest, "the end");
}

#[tokio::test]
async fn a_frame_that_is_cut_is_resumed() {
    let (server, client) = pair().await;
    comes_whole(server.park(Entered::alone()).unwrap(), client).await;
}

#[tokio::test]
async fn a_record_that_is_cut_is_resumed() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let cert = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.clone()], key.into())
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (accepted, connected) = pair().await;
    let name = ServerName::try_from("localhost").unwrap();
    let (accepted, connected) = tokio::join!(
        TlsAcceptor::from(Arc::new(server)).accept(accepted),
        TlsConnector::from(Arc::new(client)).connect(name, connected)
    );
    comes_whole(accepted.unwrap().park(Entered::alone()).unwrap(), connected.unwrap()).await;
}

#[tokio::test]
async fn a_silent_reader_is_there_until_it_leaves() {
    let (server, client) = pair().await;
    let mut sink = server.park(Entered::alone()).unwrap();
    sink.peer().unwrap();
    drop(client);
    let gone = async {
        while sink.peer().is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(DEADLINE, gone).await.unwrap();
}
