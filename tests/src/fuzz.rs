//! What must hold of any bytes that somebody else may send: no panic, no surprise in memory, and
//! what is read means the same when it is written again.
//!
//! Each function takes arbitrary bytes. `tests/fuzz` lets a fuzzer look for bytes that break one;
//! what it found, and a few seeds, are replayed by an ordinary test.

mod socket;

use std::path::PathBuf;

use minicbor::{Decode, Encode};
use tidings_daemon::config::RawConfig;
use tidings_daemon::vault::{pack_body, unpack_body};
use tidings_proof::{
    Blob, Chain, SealedEarlier, SignedEntry, SignedHeader, SignedManifest, SignedRun, Wrap,
};
use tidings_server::config::{Config as ServerConfig, Layers};
use tidings_tables::{Body, Filter, Input, Patch, RowId, json};
use tidings_wire::sse::{Item, Reader, SseError};
use tidings_wire::sync::{
    CompactRequest, HeadersResponse, Manifests, PullResponse, PushRequest, PushResponse,
};

/// A name and what it checks.
pub type Target = (&'static str, fn(&[u8]));

/// Every target; `tests/fuzz` has one program and one corpus of each name.
pub const TARGETS: &[Target] = &[
    ("sse", sse),
    ("proof", proof),
    ("chain", chain),
    ("cbor", cbor),
    ("body", body),
    ("row", row),
    ("config", config),
    ("socket", socket::heads),
];

/// Checks bytes against a target.
///
/// # Panics
/// What must hold does not, or there is no such target.
pub fn check(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(target, _)| *target == name);
    let (_, check) = target.expect("a target of this name");
    check(bytes);
}

/// A reader of events gives the same of a stream however it is cut into pieces.
///
/// # Panics
/// It does not.
pub fn sse(bytes: &[u8]) {
    let whole = read(bytes, bytes.len().max(1));
    for size in [1, 2, 3, 7] {
        assert_eq!(read(bytes, size), whole, "in pieces of {size}");
    }
}

/// Small limits, so that the fuzzer meets them.
const LINE: usize = 64;
const EVENT: usize = 256;

fn read(bytes: &[u8], size: usize) -> (Vec<Item>, Option<SseError>) {
    let (mut reader, mut items) = (Reader::with_limits(LINE, EVENT), Vec::new());
    for piece in bytes.chunks(size) {
        reader.feed(piece);
        loop {
            match reader.next_item() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(error) => return (items, Some(error)),
            }
        }
    }
    (items, None)
}

/// Whatever is signed has one encoding: what decodes is written again byte for byte.
///
/// # Panics
/// It is not.
pub fn proof(bytes: &[u8]) {
    if let Ok(blob) = Blob::parse(bytes) {
        let header = blob.header();
        let (start, end) = (header.encode().len(), bytes.len() - tidings_proof::Signature::LEN);
        let joined = Blob::join(header, &bytes[start..end], &blob.signed_header().signature);
        assert_eq!(joined, bytes, "a blob");
    }
    same("a header", bytes, SignedHeader::decode(bytes).map(|read| read.encode()));
    same("a manifest", bytes, SignedManifest::decode(bytes).map(|read| read.encode()));
    same("an entry", bytes, SignedEntry::decode(bytes).map(|read| read.encode()));
    same("a run", bytes, SignedRun::decode(bytes).map(|read| read.encode()));
    same("a wrap", bytes, Wrap::decode(bytes).map(|read| read.encode()));
    same("an earlier secret", bytes, SealedEarlier::decode(bytes).map(|read| read.encode()));
}

fn same<E>(what: &str, bytes: &[u8], written: Result<Vec<u8>, E>) {
    if let Ok(written) = written {
        assert_eq!(written, bytes, "{what} has one encoding");
    }
}

/// A chain of arbitrary entries, each after its length in two bytes, folds or is refused; one that
/// folds stands where its last entry says.
///
/// # Panics
/// It does not.
pub fn chain(bytes: &[u8]) {
    let mut entries = Vec::new();
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(after.len());
        let (entry, after) = after.split_at(length);
        rest = after;
        let Ok(entry) = SignedEntry::decode(entry) else { return };
        entries.push(entry);
    }
    let Some(Ok(begun)) = entries.first().map(Chain::begin) else { return };
    if let Ok(chain) = Chain::fold(begun.account(), &entries) {
        let last = entries.last().expect("a chain has a genesis");
        assert_eq!(chain.head().hash, last.entry.hash());
        assert!(!chain.devices().is_empty());
    }
}

/// Bodies of the server's calls mean the same when they are written again.
///
/// # Panics
/// They do not.
pub fn cbor(bytes: &[u8]) {
    again::<PushRequest>(bytes);
    again::<PushResponse>(bytes);
    again::<PullResponse>(bytes);
    again::<HeadersResponse>(bytes);
    again::<Manifests>(bytes);
    again::<CompactRequest>(bytes);
}

fn again<T>(bytes: &[u8])
where
    T: for<'b> Decode<'b, ()> + Encode<()> + PartialEq + std::fmt::Debug,
{
    if let Ok(read) = minicbor::decode::<T>(bytes) {
        let written = minicbor::to_vec(&read).expect("what was read can be written");
        assert_eq!(minicbor::decode::<T>(&written).expect("our own bytes"), read);
    }
}

/// What a device sealed, once opened: unpacked within its limit, read, and written again.
///
/// # Panics
/// It means something else then.
pub fn body(bytes: &[u8]) {
    if let Ok(unpacked) = unpack_body(bytes) {
        assert!(unpacked.len() <= tidings_wire::limits::BLOB_BODY_SINGLE);
        assert_eq!(unpack_body(&pack_body(&unpacked)), Ok(unpacked.clone()));
        tables(&unpacked);
    }
    tables(bytes);
}

fn tables(bytes: &[u8]) {
    if let Ok(read) = Body::decode(bytes) {
        let written = read.encode();
        assert_eq!(Body::decode(&written).expect("our own bytes"), read);
        for (_, delta) in &read.deltas {
            let mut once = delta.clone();
            once.append(delta);
            assert_eq!(once, *delta, "merging a delta with itself changes nothing");
        }
    }
}

/// A value that an app sends is the same after it was written and read again; as a row, filter or
/// patch it is taken or refused.
///
/// # Panics
/// It is not the same.
pub fn row(bytes: &[u8]) {
    let Ok(value) = json::parse(bytes) else { return };
    let written = value.to_string();
    assert_eq!(json::parse(written.as_bytes()).as_ref(), Ok(&value), "{written}");
    let id = RowId::new("r").expect("an id");
    let _ = Patch::operators(value.clone(), &id);
    let _ = Patch::merge(value.clone(), &id);
    let input = Input::new(value.clone());
    if let (Ok(filter), Ok(input)) = (Filter::compile(&value), input) {
        let _ = filter.matches(&input.columns);
    }
}

/// A configuration file of the daemon or the server is taken or refused in words.
///
/// # Panics
/// A refusal says nothing.
pub fn config(bytes: &[u8]) {
    let dir = scratch();
    let file = dir.join(format!("{:?}.toml", std::thread::current().id()));
    std::fs::write(&file, bytes).expect("a file");
    match RawConfig::default().file(&file).and_then(RawConfig::resolve) {
        Ok(config) => assert!(!config.show().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Layers::load(Some(&file), [], []).and_then(|layers| ServerConfig::resolve(&layers)) {
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A directory for this process's files.
fn scratch() -> &'static PathBuf {
    static DIR: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    DIR.get_or_init(|| tempfile::tempdir().expect("a directory").keep())
}
