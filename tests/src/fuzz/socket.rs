//! Bytes on the daemon's socket: it answers with HTTP or hangs up, and goes on serving.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use tidings_client::socket::OWNER_TOKEN_NAME;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use crate::device::Device;
use crate::inside::InsideDaemon;
use crate::wait::within;

/// A daemon that serves all inputs.
struct Served {
    runtime: Runtime,
    socket: PathBuf,
    token: String,
    daemon: InsideDaemon,
}

fn served() -> &'static Served {
    static SERVED: OnceLock<Served> = OnceLock::new();
    SERVED.get_or_init(|| {
        let runtime = Runtime::new().expect("a runtime");
        let device =
            Device::new("fuzzed").set("api.header_timeout=100ms").set("api.body_idle=100ms");
        let daemon = runtime.block_on(InsideDaemon::start(device));
        let home = daemon.device.home();
        let token = std::fs::read_to_string(home.join(OWNER_TOKEN_NAME)).expect("a token");
        let socket = daemon.device.socket();
        Served { runtime, socket, token: token.trim().to_owned(), daemon }
    })
}

/// Longest that the daemon may take to be done with a client that says no more.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends bytes and looks at what comes back. `TOKEN` in them stands for the owner's token, so that
/// the fuzzer gets past the gate.
///
/// # Panics
/// What comes back is no HTTP, a failure of the daemon, or nothing for too long.
pub(super) fn heads(bytes: &[u8]) {
    let served = served();
    let sent = with_token(bytes, served.token.as_bytes());
    let answer = served.runtime.block_on(async {
        let mut stream = UnixStream::connect(&served.socket).await.expect("the daemon listens");
        // It may hang up in the middle of what is sent.
        let _ = stream.write_all(&sent).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = within("the daemon is done with it", PATIENCE, async {
            // A stream of events would go on; its head says enough.
            (&mut stream).take(64 << 10).read_to_end(&mut answer).await
        })
        .await;
        answer
    });
    if !answer.is_empty() {
        let text = String::from_utf8_lossy(&answer[..answer.len().min(200)]);
        assert!(text.starts_with("HTTP/1."), "{text}");
        assert!(!text.starts_with("HTTP/1.1 500"), "{text}");
    }
    served.runtime.block_on(async {
        served.daemon.device.client().ping().await.expect("the daemon still serves");
    });
}

fn with_token(bytes: &[u8], token: &[u8]) -> Vec<u8> {
    const PLACE: &[u8] = b"TOKEN";
    let mut sent = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(PLACE.len()).position(|window| window == PLACE) {
        sent.extend_from_slice(&rest[..at]);
        sent.extend_from_slice(token);
        rest = &rest[at + PLACE.len()..];
    }
    sent.extend_from_slice(rest);
    sent
}
