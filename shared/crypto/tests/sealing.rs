//! Blobs, manifests and runs: what is sealed opens, where it belongs and nowhere else.

use proptest::prelude::*;
use std::sync::OnceLock;
use tidings_crypto::*;
use tidings_proof::*;
use tidings_wire::*;

use crate::support::*;

/// One account for all cases: making keys is slow.
fn account() -> &'static Account {
    static ACCOUNT: OnceLock<Account> = OnceLock::new();
    ACCOUNT.get_or_init(|| Account::new(&mut SeedRng::new("sealing")))
}

fn seal(account: &Account, header: &BlobHeader, body: &[u8]) -> Vec<u8> {
    let rng = &mut random::system();
    seal_blob(&account.keys, &account.ring, header, body, rng).unwrap().bytes
}

fn open(account: &Account, bytes: &[u8]) -> Option<Vec<u8>> {
    let blob = Blob::parse(bytes).ok()?.verify(&account.chain).ok()?;
    open_blob(&account.ring, &blob).ok().map(|body| body.to_vec())
}

#[test]
fn a_sealed_blob_opens_and_names_its_hash() {
    let account = account();
    let header = account.header("films", 1, Hash::ZERO);
    let rng = &mut random::system();
    let sealed = seal_blob(&account.keys, &account.ring, &header, b"rows", rng).unwrap();
    assert_eq!(Blob::parse(&sealed.bytes).unwrap().hash(), sealed.hash);
    assert_eq!(open(account, &sealed.bytes).unwrap(), b"rows");
    let again = seal(account, &header, b"rows");
    assert_ne!(again, sealed.bytes, "two seals have two nonces");
}

#[test]
fn any_changed_byte_keeps_a_blob_shut() {
    let account = account();
    let bytes = seal(account, &account.header("films", 1, Hash::ZERO), b"some rows");
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        assert_eq!(open(account, &changed), None, "byte {at}");
    }
}

#[test]
fn sealed_bytes_open_under_their_own_header_only() {
    // Even where the signature is the device's own: the header is the associated data.
    let account = account();
    let header = account.header("films", 2, Hash([1; 32]));
    let mut moved = vec![
        account.header("actors", 2, Hash([1; 32])),
        account.header("films", 3, Hash([1; 32])),
        account.header("films", 2, Hash([2; 32])),
    ];
    let mut other_app = header.clone();
    other_app.lane.app = "notes".parse().unwrap();
    moved.push(other_app);
    let mut other_replica = header.clone();
    other_replica.lane.replica.incarnation = Incarnation([9; 8]);
    moved.push(other_replica);
    let bytes = seal(account, &header, b"rows");
    let parsed = Blob::parse(&bytes).unwrap();
    let sealed_len = 24 + 16 + 8;
    let sealed = &parsed.bytes()[bytes.len() - 64 - sealed_len..bytes.len() - 64];
    for header in moved {
        // The test signs with the exported seed, as a malicious program on the device could.
        let signed = header.signed_bytes(&tidings_proof::blob::hash_of(sealed));
        let forged = Blob::join(&header, sealed, &sign_raw(&account.keys, &signed));
        let verified = Blob::parse(&forged).unwrap().verify(&account.chain).unwrap();
        assert_eq!(open_blob(&account.ring, &verified).unwrap_err(), OpenError);
    }
}

fn sign_raw(keys: &DeviceKeys, message: &[u8]) -> Signature {
    use ed25519_dalek::Signer;
    let seed: [u8; 32] = keys.export()[2..34].try_into().unwrap();
    Signature(ed25519_dalek::SigningKey::from_bytes(&seed).sign(message).to_bytes())
}

#[test]
fn a_key_ring_without_the_epoch_or_of_another_account_opens_nothing() {
    let account = account();
    let bytes = seal(account, &account.header("films", 1, Hash::ZERO), b"rows");
    let blob = Blob::parse(&bytes).unwrap().verify(&account.chain).unwrap();
    let empty = Keyring::new(account.chain.account());
    assert_eq!(open_blob(&empty, &blob).unwrap_err(), OpenError);
    let other = Account::new(&mut SeedRng::new("other account"));
    assert_eq!(open_blob(&other.ring, &blob).unwrap_err(), OpenError);
}

#[test]
fn mistakes_of_the_caller_are_told() {
    let account = account();
    let rng = &mut random::system();
    let try_seal = |header: &BlobHeader, body: &[u8]| {
        seal_blob(&account.keys, &account.ring, header, body, &mut random::system()).unwrap_err()
    };
    let header = account.header("films", 1, Hash::ZERO);
    let mut wrong = header.clone();
    wrong.account = AccountId([1; 16]);
    assert_eq!(try_seal(&wrong, b""), SealError::WrongAccount);
    let mut wrong = header.clone();
    wrong.lane.replica.device = DeviceId([1; 16]);
    assert_eq!(try_seal(&wrong, b""), SealError::WrongDevice(DeviceId([1; 16])));
    let mut wrong = header.clone();
    wrong.epoch = Epoch(3);
    assert_eq!(try_seal(&wrong, b""), SealError::MissingEpoch(Epoch(3)));
    let too_large = SealError::TooLarge { limit: limits::BLOB };
    assert_eq!(try_seal(&header, &vec![0; limits::BLOB + 1]), too_large);
    assert_eq!(try_seal(&header, &vec![0; limits::BLOB - 40]), too_large);
    // The largest body that the engine makes fits, with a byte before it that names its coding.
    let body = vec![1; limits::BLOB_BODY_SINGLE + 1];
    let largest = seal_blob(&account.keys, &account.ring, &header, &body, rng).unwrap();
    assert!(largest.bytes.len() <= limits::BLOB);

    let mut foreign = account.manifest(1);
    foreign.replica.device = DeviceId([2; 16]);
    let error = sign_manifest(&account.keys, foreign).unwrap_err();
    assert_eq!(error, SealError::WrongDevice(DeviceId([2; 16])));
    let mut huge = account.manifest(1);
    for number in 0..5_000u16 {
        let mut tag = [0; 16];
        tag[..2].copy_from_slice(&number.to_be_bytes());
        huge.lanes.insert(TableTag(tag), LaneHead { seq: Seq(1), hash: Hash([1; 32]) });
    }
    let error = sign_manifest(&account.keys, huge).unwrap_err();
    assert_eq!(error, SealError::TooLarge { limit: limits::MANIFEST });
}

#[test]
fn a_manifest_of_the_most_lanes_fits() {
    let account = account();
    let mut manifest = account.manifest(1);
    for number in 0..limits::MANIFEST_LANES {
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&(number as u64).to_be_bytes());
        manifest.lanes.insert(TableTag(tag), LaneHead { seq: Seq(1), hash: Hash([1; 32]) });
    }
    let signed = sign_manifest(&account.keys, manifest).unwrap();
    let decoded = SignedManifest::decode(&signed.encode()).unwrap();
    assert_eq!(decoded, signed);
    decoded.verify(&account.chain).unwrap();
}

#[test]
fn tags_differ_by_app_and_account_and_stay_over_epochs() {
    let rng = &mut SeedRng::new("tags");
    let mut account = Account::new(rng);
    let other = Account::new(rng);
    let notes: AppId = "notes".parse().unwrap();
    let tag = account.tag("films");
    assert_ne!(account.tag("film"), tag);
    assert_ne!(account.ring.tag(&notes, "films").unwrap(), tag);
    assert_ne!(other.tag("films"), tag);
    let new = entries::rotate(&account.keys, &account.chain, &account.ring, rng).unwrap();
    account.take(&new);
    assert_eq!(account.tag("films"), tag);
    assert_eq!(Keyring::new(account.chain.account()).tag(&notes, "films"), None);
}

#[test]
fn parts_of_a_run_open_by_their_place_in_the_statement() {
    let account = account();
    let tag = account.tag("films");
    let make = |body: &[u8]| {
        seal_part(&account.ring, &app(), tag, epoch(0), body, &mut random::system()).unwrap()
    };
    let parts = [make(b"first"), make(b"second")];
    let statement = RunStatement {
        kind: RunKind::Fill,
        account: account.chain.account(),
        app: app(),
        author: account.replica(),
        tag,
        covers: [].into(),
        purged: [].into(),
        parts: parts.iter().map(|part| part.part).collect(),
        epoch: epoch(0),
        chain: account.chain.head(),
    };
    let signed = sign_run(&account.keys, statement.clone()).unwrap();
    let run = SignedRun::decode(&signed.encode()).unwrap().verify(&account.chain).unwrap();
    let open = |number: usize, bytes: &[u8]| {
        open_part(&account.ring, &run, number, bytes).map(|body| body.to_vec())
    };
    assert_eq!(open(0, &parts[0].bytes).unwrap(), b"first");
    assert_eq!(open(1, &parts[1].bytes).unwrap(), b"second");
    assert_eq!(open(0, &parts[1].bytes), Err(OpenError));
    assert_eq!(open(2, &parts[1].bytes), Err(OpenError));
    let mut changed = parts[0].bytes.clone();
    changed[30] ^= 1;
    assert_eq!(open(0, &changed), Err(OpenError));

    // The same part under another table does not open, though its hash is in the statement.
    let elsewhere = RunStatement { tag: account.tag("actors"), ..statement };
    let signed = sign_run(&account.keys, elsewhere).unwrap();
    let run = signed.verify(&account.chain).unwrap();
    assert_eq!(open_part(&account.ring, &run, 0, &parts[0].bytes).unwrap_err(), OpenError);
}

#[test]
fn only_the_pinned_server_gets_an_answer() {
    use tidings_proof::signin::{Challenge, verify_answer};
    use tidings_wire::auth::Action;
    let rng = &mut SeedRng::new("sign in");
    let (account, server, evil) =
        (Account::new(rng), DeviceKeys::generate(rng), DeviceKeys::generate(rng));
    let pinned = server_id(&server.public().signing);
    let challenge = Challenge {
        server: pinned,
        account: account.chain.account(),
        device: account.keys.id(),
        nonce: [3; 32],
    };
    let by = |signer: &DeviceKeys| sign_raw(signer, &challenge.signed_bytes());
    let answer = |signer: &DeviceKeys| {
        let key = signer.public().signing;
        answer_challenge(&account.keys, &challenge, &key, &by(signer), Action::SignIn)
    };
    assert!(answer(&evil).is_err());
    let signature = answer(&server).unwrap();
    let key = &account.keys.public().signing;
    verify_answer(key, pinned, Action::SignIn, &[3; 32], &signature).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_body_comes_back(body in proptest::collection::vec(any::<u8>(), 0..5_000), seq in 1..9u64) {
        let account = account();
        let prev = if seq == 1 { Hash::ZERO } else { Hash([4; 32]) };
        let bytes = seal(account, &account.header("films", seq, prev), &body);
        prop_assert_eq!(open(account, &bytes).unwrap(), body);
    }

    #[test]
    fn sizes_tell_only_their_class(len in 1_000..1_020usize) {
        // 1,004 to 1,024 bytes with the length before them are one class.
        let account = account();
        let header = account.header("films", 1, Hash::ZERO);
        let size = |len: usize| seal(account, &header, &vec![1; len]).len();
        prop_assert_eq!(size(len), size(1_020));
    }
}
