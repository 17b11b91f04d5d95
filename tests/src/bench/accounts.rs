//! Servers without limits, many accounts on them, and pushes that were sealed before the clock runs.

use tidings_wire::AppId;

use super::load::Publish;
use crate::{Hand, Server};

/// A server where nobody is limited.
const UNLIMITED: &[&str] = &[
    "rates.address=off",
    "rates.account=off",
    "rates.sign_in=off",
    "rates.create_account=off",
    "rates.chain=off",
    "limits.connections=100000",
    "limits.connections_per_address=100000",
    "limits.apps=100000",
    "stream.per_app=100000",
    "stream.per_account=100000",
    "auth.token_life=1d",
    "log=warn",
];

/// Starts a server where nobody is limited, with further settings.
pub(super) fn server(settings: &[&str]) -> Server {
    Server::with(&[UNLIMITED, settings].concat())
}

/// Accounts, each with one device.
#[derive(Debug)]
pub(super) struct Accounts {
    hands: Vec<Hand>,
    /// A body that makes a blob of 512 bytes, or the next smaller size.
    body: Vec<u8>,
}

impl Accounts {
    /// Makes so many.
    ///
    /// # Panics
    /// The server refuses.
    pub(super) async fn create(url: &str, count: usize) -> Self {
        let mut hands = Vec::new();
        for _ in 0..count {
            hands.push(Hand::create(url).await);
        }
        let body = body_for(&hands[0], BLOB);
        Self { hands, body }
    }

    /// Their tokens.
    pub(super) fn tokens(&self) -> Vec<String> {
        self.hands.iter().map(|hand| hand.token().to_owned()).collect()
    }

    /// The next push of a channel: channel `n` is the app `cn` of account `n` modulo their count.
    ///
    /// # Panics
    /// Never, for what was made here.
    pub(super) fn seal(&mut self, channel: usize) -> Publish {
        let place = channel % self.hands.len();
        let hand = &mut self.hands[place];
        let app: AppId = format!("c{channel}").parse().expect("an app");
        let request = hand.seal(&app, &[("rows", self.body.clone())]);
        let body = minicbor::to_vec(&request).expect("CBOR");
        let mut whole = format!(
            "POST /api/sync/push?app_id={app} HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
            hand.token(),
            tidings_wire::sync::MEDIA_TYPE,
            body.len()
        )
        .into_bytes();
        whole.extend_from_slice(&body);
        Publish { channel, request: whole }
    }
}

/// Bytes of a blob.
const BLOB: usize = 512;

/// A body whose blob has at most so many bytes, and hardly less; padding makes sizes go in steps.
pub(super) fn body_for(hand: &Hand, size: usize) -> Vec<u8> {
    let app: AppId = "size".parse().expect("an app");
    let blob = |length| hand.clone().seal(&app, &[("rows", vec![0; length])]).blobs[0].len();
    let length = (1..size).rev().find(|length| blob(*length) <= size);
    vec![0; length.expect("a size that holds a header")]
}
