//! Vectors of what goes to the server and comes back: one message of each kind.
//!
//! Blobs, manifests and statements are those of `shared/crypto/tests/vectors`; here they are bytes
//! that are carried.

use serde_json::{Value, json};
use tidings_wire::account::{
    AppendChainRequest, AppendChainResponse, ChainResponse, CreateAccountRequest,
    CreateAccountResponse, DeleteAccountRequest, KeyringEpoch, KeyringResponse,
};
use tidings_wire::auth::{ChallengeRequest, ChallengeResponse, TokenRequest, TokenResponse};
use tidings_wire::pairing::{OpenMailboxResponse, PutMailboxRequest, ReadMailboxResponse};
use tidings_wire::problem::Code;
use tidings_wire::sse::{CHANGED, Frame, KEEPALIVE};
use tidings_wire::sync::*;
use tidings_wire::{
    AccountId, ChainIndex, DeviceId, Epoch, Generation, Hash, Incarnation, ManifestNumber,
    Nameplate, Position, Seq, ServerId, StartId, TableTag,
};

use super::{bytes, hex, list, text, unhex};

const DEVICE: DeviceId = DeviceId([0xd1; 16]);
const INCARNATION: Incarnation = Incarnation([0x11; 8]);
const TAG: TableTag = TableTag([0x7a; 16]);
const GENERATION: Generation = Generation([0x6e; 8]);
const CHAIN: ChainHead = ChainHead { index: ChainIndex(300), hash: Hash([0xce; 32]) };

fn blobs() -> Vec<minicbor::bytes::ByteVec> {
    vec![b"a blob".to_vec().into(), b"another".to_vec().into()]
}

fn pushed() -> PushResponse {
    PushResponse {
        generation: GENERATION,
        position: Some(Position(70_000)),
        head: Position(70_001),
        already: false,
        manifest: Some(ManifestMark { n: ManifestNumber(9), hash: Hash([0xa9; 32]) }),
        chain: CHAIN,
    }
}

fn pulled() -> PullResponse {
    let entry = |position, item| Entry {
        position: Position(position),
        received_ms: 1_800_000_000_000 + position,
        item,
    };
    PullResponse {
        generation: GENERATION,
        start: StartId([0x57; 8]),
        reset: None,
        entries: vec![
            entry(5, Item::Blob(b"a blob".to_vec().into())),
            entry(6, Item::Run(b"a statement".to_vec().into())),
            entry(6, Item::Part(1, b"a part".to_vec().into())),
            entry(7, Item::Damaged),
        ],
        cursor: b"a cursor".to_vec().into(),
        position: Position(6),
        part: 1,
        has_more: true,
        head: Position(70_001),
        manifest_heads: vec![ManifestHead {
            device: DEVICE,
            incarnation: INCARNATION,
            n: ManifestNumber(9),
            hash: Hash([0xa9; 32]),
        }],
        manifests: vec![b"a manifest".to_vec().into()],
        anchors: vec![Anchor {
            device: DEVICE,
            incarnation: INCARNATION,
            tag: TAG,
            seq: Seq(41),
            hash: Hash([0x41; 32]),
        }],
        chain: CHAIN,
        epoch: Epoch(2),
        now_ms: 1_800_000_000_123,
    }
}

fn reset() -> PullResponse {
    PullResponse {
        reset: Some(Reset { common: Position(4) }),
        entries: vec![],
        position: Position(4),
        part: 0,
        has_more: false,
        anchors: vec![],
        ..pulled()
    }
}

fn encode<T: minicbor::Encode<()>>(message: &T) -> Value {
    minicbor::to_vec(message).map(hex).unwrap().into()
}

/// Messages in CBOR.
fn cbor() -> Value {
    let push = PushRequest { blobs: blobs(), manifest: b"a manifest".to_vec().into() };
    let bare = PushResponse { position: None, manifest: None, already: true, ..pushed() };
    let headers = HeadersResponse {
        generation: GENERATION,
        headers: vec![b"a signed header".to_vec().into()],
        has_more: false,
    };
    let compact = CompactRequest {
        generation: GENERATION,
        statement: b"a statement".to_vec().into(),
        manifest: b"a manifest".to_vec().into(),
        replaced: vec![Replaced { position: Position(5), hash: Hash([0xb5; 32]) }],
    };
    json!({
        "push": encode(&push),
        "pushed": encode(&pushed()),
        "pushed_bare": encode(&bare),
        "pulled": encode(&pulled()),
        "pulled_reset": encode(&reset()),
        "headers": encode(&headers),
        "manifests": encode(&Manifests { manifests: vec![b"a manifest".to_vec().into()] }),
        "compact": encode(&compact),
    })
}

fn body(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

/// Requests and answers in JSON: base64url texts are of the words that they stand for.
fn json() -> Value {
    let (account_id, server_id) = (AccountId([0xac; 16]), ServerId([0x5e; 32]));
    let words = |words: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(words)
    };
    json!({
        "create_account": [
            body(CreateAccountRequest {
                genesis: words("a genesis"), wraps: vec![words("a wrap")], invite: Some("abcde-fghjk".into()),
            }),
            body(CreateAccountResponse { account_id, server_id }),
        ],
        "delete_account": [
            body(DeleteAccountRequest { nonce: words("a nonce?"), signature: words("a signature") }),
            null,
        ],
        "challenge": [
            body(ChallengeRequest { account_id, device_id: DEVICE }),
            body(ChallengeResponse {
                server_id, token_key: words("a token key"), nonce: words("a nonce?"),
                signature: words("a signature"), now_ms: 1_800_000_000_000,
            }),
        ],
        "token": [
            body(TokenRequest {
                account_id, device_id: DEVICE, nonce: words("a nonce?"), signature: words("a signature"),
            }),
            body(TokenResponse {
                token: "a.b.c".into(), expires_ms: 1_800_000_900_000, now_ms: 1_800_000_000_000,
            }),
        ],
        "read_chain": [
            null,
            body(ChainResponse { entries: vec![words("an entry")], head: CHAIN }),
        ],
        "append_chain": [
            body(AppendChainRequest {
                account_id, entry: words("an entry"), wraps: vec![words("a wrap")],
                earlier: Some(words("a secret")),
            }),
            body(AppendChainResponse { head: CHAIN }),
        ],
        "keyring": [
            null,
            body(KeyringResponse { epochs: vec![
                KeyringEpoch { epoch: Epoch(0), wrap: None, earlier: None },
                KeyringEpoch { epoch: Epoch(1), wrap: Some(words("a wrap")), earlier: Some(words("a secret")) },
            ] }),
        ],
        "open_mailbox": [
            null,
            body(OpenMailboxResponse {
                nameplate: Nameplate(4821), server_id, token_key: words("a token key"),
                expires_ms: 1_800_000_600_000,
            }),
        ],
        "put_mailbox": [body(PutMailboxRequest { index: 0, message: words("a message") }), null],
        "read_mailbox": [
            null,
            body(ReadMailboxResponse {
                messages: vec![words("a message")], server_id, token_key: words("a token key"),
            }),
        ],
        "apps": [
            null,
            body(AppsResponse {
                generation: GENERATION,
                apps: vec![AppHead { app_id: "movies".parse().unwrap(), head: Position(70_001) }],
                chain: CHAIN,
            }),
        ],
        "status": [
            null,
            body(StatusResponse {
                bytes: 123_456, blobs: 78, quota_bytes: None,
                tables: vec![TableUsage { app_id: "movies".parse().unwrap(), tag: TAG, blobs: 78, bytes: 123_456 }],
                devices: vec![DevicePull {
                    app_id: "movies".parse().unwrap(), device_id: DEVICE, incarnation: INCARNATION,
                    position: Position(70_001), at_ms: 1_800_000_000_000,
                }],
            }),
        ],
    })
}

/// The frames of the stream of changes.
fn stream() -> Value {
    let event = |name: &str, data: &str| {
        String::from_utf8(Frame::new().event(Some(name), None, data).unwrap().finish()).unwrap()
    };
    json!([
        String::from_utf8_lossy(CHANGED),
        event("changed", "movies"),
        event("changed", ACCOUNT_CHANNEL),
        String::from_utf8_lossy(KEEPALIVE),
        event("reauth", r#"{"reason":"token_expired"}"#),
    ])
}

pub fn make() -> Value {
    json!({ "cbor": cbor(), "json": json(), "stream": stream() })
}

#[test]
fn the_protocol_names_refusals_as_they_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/protocol.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (_, section) = document.split_once("### Refusals").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut named = 0;
    for row in section.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let (statuses, codes) = row[2..].split_once(" | ").unwrap();
        for code in codes.split('`').skip(1).step_by(2) {
            let known: Code = code.parse().unwrap_or_else(|()| panic!("{code} is no code"));
            let status = known.status().to_string();
            assert!(statuses.split(", ").any(|listed| listed == status), "{code} is {status}");
            named += 1;
        }
    }
    assert!(named > 30, "the table has {named} codes");
}

pub fn read(vector: &Value) {
    let cbor = &vector["cbor"];
    let pulled_bytes = bytes(cbor, "pulled");
    assert_eq!(minicbor::decode::<PullResponse>(&pulled_bytes).unwrap(), pulled());
    assert_eq!(minicbor::decode::<PullResponse>(&bytes(cbor, "pulled_reset")).unwrap(), reset());
    assert_eq!(minicbor::decode::<PushResponse>(&bytes(cbor, "pushed")).unwrap(), pushed());
    // A later release appends fields: they are passed over.
    let longer = unhex(&text(cbor, "pushed").replacen("86", "87", 1));
    let longer = [longer, vec![0x18, 0x2a]].concat();
    assert_eq!(minicbor::decode::<PushResponse>(&longer).unwrap(), pushed());
    let push: PushRequest = minicbor::decode(&bytes(cbor, "push")).unwrap();
    assert_eq!(push.blobs, blobs());
    for name in ["create_account", "challenge", "token", "append_chain", "put_mailbox"] {
        let mut request = list(&vector["json"], name)[0].clone();
        request["more"] = 1.into();
        let refused = match name {
            "create_account" => serde_json::from_value::<CreateAccountRequest>(request).is_err(),
            "challenge" => serde_json::from_value::<ChallengeRequest>(request).is_err(),
            "token" => serde_json::from_value::<TokenRequest>(request).is_err(),
            "append_chain" => serde_json::from_value::<AppendChainRequest>(request).is_err(),
            _ => serde_json::from_value::<PutMailboxRequest>(request).is_err(),
        };
        assert!(refused, "{name}: an unknown field");
    }
}
