//! Vectors of what an epoch secret gives: keys, tags, blobs, manifests, runs.

use serde_json::{Value, json};
use tidings_crypto::*;
use tidings_proof::*;
use tidings_wire::{ChainIndex, Epoch, Hash, Incarnation, ManifestNumber, Seq, TableTag};

use super::{array, bytes, number, text};
use crate::second;
use crate::support::*;

/// An account whose one epoch secret is known.
fn account(seed: &str) -> (Account, Value) {
    let account = Account::new(&mut SeedRng::new(seed));
    let given = json!({
        "genesis": hex(account.entries[0].encode()),
        "account": account.chain.account().to_string(),
        "signing_public": hex(account.keys.public().signing),
        "epoch_secret": hex(&account.ring.export()[25..]),
    });
    (account, given)
}

/// The account back from a vector.
fn known(vector: &Value) -> (Chain, Keyring) {
    let genesis = SignedEntry::decode(&bytes(vector, "genesis")).unwrap();
    let chain = Chain::fold(text(vector, "account").parse().unwrap(), [&genesis]).unwrap();
    let mut ring = Keyring::new(chain.account());
    let secret = EpochSecret::from_bytes(array(vector, "epoch_secret"));
    ring.insert(&chain, Epoch(0), secret).unwrap();
    (chain, ring)
}

fn join(mut given: Value, more: Value) -> Value {
    given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    given
}

pub fn make_commit() -> Value {
    json!({ "epoch_secret": hex([0x42; 32]), "commit": hex(EpochSecret::from_bytes([0x42; 32]).commit()) })
}

pub fn open_commit(vector: &Value) {
    let secret = array(vector, "epoch_secret");
    assert_eq!(EpochSecret::from_bytes(secret).commit().to_vec(), bytes(vector, "commit"));
    assert_eq!(second::derive(&secret, "commit", &[]).to_vec(), bytes(vector, "commit"));
}

/// The key never leaves its crate, so that what it sealed stands beside it.
pub fn make_sealing_key() -> Value {
    let (account, given) = account("vector: sealing key");
    let secret = &account.ring.export()[25..];
    let rng = &mut SeedRng::new("vector: sealing key, part");
    let part = seal_part(&account.ring, &app(), TableTag([7; 16]), epoch(0), b"body", rng).unwrap();
    join(
        given,
        json!({
            "app": "movies",
            "sealing_key": hex(second::derive(secret, "seal-key", &second::short("movies"))),
            "tag": TableTag([7; 16]).to_string(),
            "epoch": 0,
            "sealed_part": hex(part.bytes),
            "body": hex("body"),
        }),
    )
}

pub fn open_sealing_key(vector: &Value) {
    let secret = bytes(vector, "epoch_secret");
    let key = second::derive(&secret, "seal-key", &second::short(text(vector, "app")));
    assert_eq!(key.to_vec(), bytes(vector, "sealing_key"));
    let data = [
        second::label("run-part"),
        bytes(vector, "account"),
        second::short(text(vector, "app")),
        bytes(vector, "tag"),
        (number(vector, "epoch") as u32).to_be_bytes().to_vec(),
    ]
    .concat();
    let padded = second::open(&key, &data, &bytes(vector, "sealed_part")).unwrap();
    assert_eq!(second::unpad(&padded), bytes(vector, "body"));
}

pub fn make_tag() -> Value {
    let (account, given) = account("vector: tag");
    let tags: Vec<Value> =
        [("movies", "films"), ("movies", ""), ("notes", "films"), ("notes", "Größe")]
            .iter()
            .map(|(app, table)| {
                let tag = account.ring.tag(&app.parse().unwrap(), table).unwrap();
                json!({ "app": app, "table": table, "tag": tag.to_string() })
            })
            .collect();
    join(given, json!({ "tags": tags }))
}

pub fn open_tag(vector: &Value) {
    let (_, ring) = known(vector);
    for case in vector["tags"].as_array().unwrap() {
        let (app, table) = (text(case, "app"), text(case, "table"));
        let tag = ring.tag(&app.parse().unwrap(), table).unwrap();
        assert_eq!(tag.to_string(), text(case, "tag"));
        let secret = bytes(vector, "epoch_secret");
        let key = second::derive(&secret, "tag-key", &second::short(app));
        assert_eq!(hex(&second::mac(&key, table.as_bytes())[..16]), text(case, "tag"));
    }
}

pub fn make_blob() -> Value {
    let (account, given) = account("vector: blob");
    let rng = &mut SeedRng::new("vector: blob, nonce");
    let header = account.header("films", 2, Hash([0x9e; 32]));
    let body = b"\x00a body of two rows";
    let sealed = seal_blob(&account.keys, &account.ring, &header, body, rng).unwrap();
    let signed = Blob::parse(&sealed.bytes).unwrap().signed_header().encode();
    join(
        given,
        json!({
            "app": "movies",
            "table": "films",
            "incarnation": header.lane.replica.incarnation.to_string(),
            "tag": header.lane.tag.to_string(),
            "seq": 2,
            "prev": header.prev.to_string(),
            "epoch": 0,
            "header": hex(header.encode()),
            "body": hex(body),
            "blob": hex(&sealed.bytes),
            "signed_header": hex(signed),
            "hash": sealed.hash.to_string(),
        }),
    )
}

pub fn open_blob(vector: &Value) {
    let (chain, ring) = known(vector);
    let blob = bytes(vector, "blob");
    let verified = Blob::parse(&blob).unwrap().verify(&chain).unwrap();
    let header = verified.header();
    assert_eq!(hex(header.encode()), text(vector, "header"));
    assert_eq!(header.lane.app.as_str(), text(vector, "app"));
    assert_eq!(header.lane.replica.incarnation.to_string(), text(vector, "incarnation"));
    assert_eq!(header.lane.tag, ring.tag(&header.lane.app, text(vector, "table")).unwrap());
    assert_eq!(header.seq, Seq(number(vector, "seq")));
    assert_eq!(header.prev.to_string(), text(vector, "prev"));
    assert_eq!(verified.hash().to_string(), text(vector, "hash"));
    let body = tidings_crypto::open_blob(&ring, &verified).unwrap();
    assert_eq!(body.to_vec(), bytes(vector, "body"));
    let signed = SignedHeader::decode(&bytes(vector, "signed_header")).unwrap();
    assert_eq!(signed.verify(&chain).unwrap().hash(), verified.hash());

    // The second client: header, sealed bytes and signature by their lengths.
    let header = bytes(vector, "header");
    let (sealed, signature) = blob[header.len()..].split_at(blob.len() - header.len() - 64);
    let signed = [header.as_slice(), blake3::hash(sealed).as_bytes()].concat();
    assert!(second::signed(&bytes(vector, "signing_public"), "blob", &signed, signature));
    let hash = blake3::hash(&[second::label("blob"), signed].concat());
    assert_eq!(hex(hash.as_bytes()), text(vector, "hash"));
    let secret = bytes(vector, "epoch_secret");
    let key = second::derive(&secret, "seal-key", &second::short("movies"));
    let padded = second::open(&key, &header, sealed).unwrap();
    assert_eq!(second::unpad(&padded), bytes(vector, "body"));
}

/// Bodies of many lengths and how long they are once padded; the short ones with their bytes.
pub fn make_padding() -> Value {
    let (account, given) = account("vector: padding");
    let rng = &mut SeedRng::new("vector: padding, parts");
    let mut sealed = |len: usize| {
        let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let (ring, tag) = (&account.ring, TableTag([7; 16]));
        seal_part(ring, &app(), tag, epoch(0), &body, rng).unwrap().bytes
    };
    let parts: Vec<Value> = [0, 1, 4, 5, 12, 13, 59, 60, 61, 124, 125, 300]
        .map(|len| json!({ "length": len, "sealed": hex(sealed(len)) }))
        .into();
    let lengths: Vec<[usize; 2]> = [0, 1, 996, 1_020, 1_021, 9_996, 99_996, 262_144, 327_680]
        .map(|len| [len, sealed(len).len() - 40])
        .into();
    let more = json!({
        "app": "movies",
        "tag": TableTag([7; 16]).to_string(),
        "epoch": 0,
        "parts": parts,
        "padded_lengths": lengths,
    });
    join(given, more)
}

pub fn open_padding(vector: &Value) {
    let secret = bytes(vector, "epoch_secret");
    let key = second::derive(&secret, "seal-key", &second::short(text(vector, "app")));
    let data = [
        second::label("run-part"),
        bytes(vector, "account"),
        second::short(text(vector, "app")),
        bytes(vector, "tag"),
        (number(vector, "epoch") as u32).to_be_bytes().to_vec(),
    ]
    .concat();
    for part in vector["parts"].as_array().unwrap() {
        let padded = second::open(&key, &data, &bytes(part, "sealed")).unwrap();
        let length = number(part, "length") as usize;
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        assert_eq!(second::unpad(&padded), body);
        assert_eq!(padded.len(), second::padme(4 + length));
    }
    for pair in vector["padded_lengths"].as_array().unwrap() {
        let at = |at: usize| pair[at].as_u64().unwrap() as usize;
        assert_eq!(second::padme(4 + at(0)), at(1));
    }
}

pub fn make_manifest() -> Value {
    let (account, given) = account("vector: manifest");
    let mut manifest = account.manifest(9);
    let other = Replica { incarnation: Incarnation([0x22; 8]), ..account.replica() };
    manifest.lanes = [
        (TableTag([1; 16]), LaneHead { seq: Seq(4), hash: Hash([0xa1; 32]) }),
        (TableTag([2; 16]), LaneHead { seq: Seq(1), hash: Hash([0xa2; 32]) }),
    ]
    .into();
    manifest.runs = [0xb1, 0xb2].map(|byte| (TableTag([1; 16]), Hash([byte; 32]))).into();
    manifest.seen = [(other, ManifestNumber(3))].into();
    manifest.apps.insert("notes".parse().unwrap());
    manifest.wants = [LaneSeq { replica: other, tag: TableTag([2; 16]), seq: Seq(7) }].into();
    let signed = sign_manifest(&account.keys, manifest).unwrap();
    join(
        given,
        json!({
            "manifest": hex(signed.encode()),
            "hash": signed.manifest.hash().to_string(),
            "n": 9,
            "time_ms": signed.manifest.time_ms,
        }),
    )
}

pub fn open_manifest(vector: &Value) {
    let (chain, _) = known(vector);
    let encoded = bytes(vector, "manifest");
    let verified = SignedManifest::decode(&encoded).unwrap().verify(&chain).unwrap();
    assert_eq!(verified.hash().to_string(), text(vector, "hash"));
    let manifest = verified.manifest();
    assert_eq!(manifest.n, ManifestNumber(number(vector, "n")));
    assert_eq!(manifest.time_ms, number(vector, "time_ms"));
    assert_eq!(manifest.chain, chain.head());
    let other = Replica { device: manifest.replica.device, incarnation: Incarnation([0x22; 8]) };
    assert_eq!(
        manifest.lanes[&TableTag([1; 16])],
        LaneHead { seq: Seq(4), hash: Hash([0xa1; 32]) }
    );
    let runs = [0xb1, 0xb2].map(|byte| (TableTag([1; 16]), Hash([byte; 32])));
    assert_eq!(manifest.runs, runs.into());
    assert_eq!(manifest.seen, [(other, ManifestNumber(3))].into());
    assert_eq!(manifest.apps, ["movies".parse().unwrap(), "notes".parse().unwrap()].into());
    let want = LaneSeq { replica: other, tag: TableTag([2; 16]), seq: Seq(7) };
    assert_eq!(manifest.wants, [want].into());

    let (body, signature) = encoded.split_at(encoded.len() - 64);
    assert!(second::signed(&bytes(vector, "signing_public"), "manifest", body, signature));
    let hash = blake3::hash(&[second::label("manifest").as_slice(), body].concat());
    assert_eq!(hex(hash.as_bytes()), text(vector, "hash"));
}

pub fn make_run() -> Value {
    let (account, given) = account("vector: run");
    let rng = &mut SeedRng::new("vector: run, nonce");
    let tag = account.tag("films");
    let parts = [b"first".as_slice(), b"second"]
        .map(|body| seal_part(&account.ring, &app(), tag, epoch(0), body, rng).unwrap());
    let replica = account.replica();
    let cover =
        |prev, to, hash| Cover { prev: Hash([prev; 32]), to: Seq(to), hash: Hash([hash; 32]) };
    let statement = RunStatement {
        kind: RunKind::Replace,
        account: account.chain.account(),
        app: app(),
        author: replica,
        tag,
        covers: [((replica, Seq(1)), cover(0, 3, 0xc1)), ((replica, Seq(5)), cover(0xc2, 9, 0xc3))]
            .into(),
        purged: [(replica, Seq(2))].into(),
        parts: parts.iter().map(|part| part.part).collect(),
        epoch: epoch(0),
        chain: account.chain.head(),
    };
    let signed = sign_run(&account.keys, statement).unwrap();
    join(
        given,
        json!({
            "statement": hex(signed.encode()),
            "hash": signed.statement.hash().to_string(),
            "parts": parts.iter().map(|part| hex(&part.bytes)).collect::<Vec<_>>(),
            "bodies": [hex("first"), hex("second")],
        }),
    )
}

pub fn open_run(vector: &Value) {
    let (chain, ring) = known(vector);
    let encoded = bytes(vector, "statement");
    let run = SignedRun::decode(&encoded).unwrap().verify(&chain).unwrap();
    assert_eq!(run.hash().to_string(), text(vector, "hash"));
    let statement = run.statement();
    assert_eq!(statement.kind, RunKind::Replace);
    assert_eq!(statement.chain.index, ChainIndex(0));
    assert_eq!(statement.covers.len(), 2);
    assert_eq!(statement.purged[&statement.author], Seq(2));
    for (number, (part, body)) in vector["parts"]
        .as_array()
        .unwrap()
        .iter()
        .zip(vector["bodies"].as_array().unwrap())
        .enumerate()
    {
        let part = unhex(part.as_str().unwrap());
        let opened = open_part(&ring, &run, number, &part).unwrap();
        assert_eq!(opened.to_vec(), unhex(body.as_str().unwrap()));
        assert_eq!(blake3::hash(&part).as_bytes(), &statement.parts[number].hash.0);
    }
    let (body, signature) = encoded.split_at(encoded.len() - 64);
    assert!(second::signed(&bytes(vector, "signing_public"), "run", body, signature));
}
