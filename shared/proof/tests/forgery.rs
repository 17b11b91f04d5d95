//! Blobs, manifests, runs and sign-ins that must not count.

use tidings_proof::manifest::AppManifestHead;
use tidings_proof::signin::{Challenge, verify_answer};
use tidings_proof::*;
use tidings_wire::auth::Action;
use tidings_wire::*;

use crate::support::*;

#[test]
fn true_ones_count() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = two(&one, &other);
    let bytes = other.blob(&chain, 1, Hash::ZERO, b"body");
    let blob = Blob::parse(&bytes).unwrap();
    let hash = blob.hash();
    let verified = blob.verify(&chain).unwrap();
    assert_eq!(verified.hash(), hash);
    assert_eq!(*verified.standing(), Standing::Active);
    assert_eq!(verified.sealed().len(), 24 + 4 + 16);
    assert!(verified.header().follows(&LaneHead::EMPTY));
    let next = other.blob(&chain, 2, hash, b"next");
    let next = Blob::parse(&next).unwrap();
    assert!(next.header().follows(&verified.verified_header().lane_head()));
    assert!(!next.header().follows(&LaneHead::EMPTY));
    let header = next.signed_header().verify(&chain).unwrap();
    assert_eq!(header.hash(), next.hash());
    other.manifest(&chain, 1).verify(&chain).unwrap();
    other.run(&chain).verify(&chain).unwrap();
}

#[test]
fn any_flipped_bit_is_found() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = two(&one, &other);
    let check = |bytes: &[u8], verify: &dyn Fn(&[u8]) -> bool| {
        assert!(verify(bytes));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << bit;
                assert!(!verify(&flipped), "byte {at}, bit {bit}");
            }
        }
    };
    check(&one.blob(&chain, 1, Hash::ZERO, b"body"), &|bytes| {
        Blob::parse(bytes).is_ok_and(|blob| blob.verify(&chain).is_ok())
    });
    check(&one.manifest(&chain, 1).encode(), &|bytes| {
        SignedManifest::decode(bytes).is_ok_and(|manifest| manifest.verify(&chain).is_ok())
    });
    check(&one.run(&chain).encode(), &|bytes| {
        SignedRun::decode(bytes).is_ok_and(|run| run.verify(&chain).is_ok())
    });
    let entry = one.next(&chain, EntryBody::Rotate { epoch: new_epoch(&chain) });
    check(&entry.encode(), &|bytes| {
        SignedEntry::decode(bytes).is_ok_and(|entry| chain.clone().extend(&entry).is_ok())
    });
}

#[test]
fn any_changed_byte_of_an_added_device_is_found() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = Chain::begin(&one.genesis()).unwrap();
    let bytes = one.next(&chain, other.joins(&chain)).encode();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] = changed[at].wrapping_add(1);
        let taken =
            SignedEntry::decode(&changed).is_ok_and(|entry| chain.clone().extend(&entry).is_ok());
        assert!(!taken, "byte {at}");
    }
}

#[test]
fn signatures_count_for_one_purpose() {
    // The same bytes under another label are another message.
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = two(&one, &other);
    let mut manifest = one.manifest(&chain, 1);
    let mut relabelled = labels::RUN.start();
    manifest.manifest.write(&mut relabelled);
    manifest.signature = one.sign(relabelled.as_bytes());
    assert_eq!(manifest.verify(&chain).unwrap_err(), VerifyError::BadSignature);
}

#[test]
fn strangers_and_paper_keys_write_nothing() {
    let (one, other, stranger) = (Actor::new(1), Actor::new(2), Actor::new(3));
    let mut chain = two(&one, &other);
    let bytes = stranger.blob(&chain, 1, Hash::ZERO, b"x");
    let error = Blob::parse(&bytes).unwrap().verify(&chain).unwrap_err();
    assert_eq!(error, VerifyError::UnknownDevice(stranger.id()));
    assert!(error.needs_chain());
    let paper = Actor::of_kind(4, DeviceKind::Paper);
    let entry = one.next(&chain, paper.joins(&chain));
    chain.extend(&entry).unwrap();
    let bytes = paper.blob(&chain, 1, Hash::ZERO, b"x");
    let error = Blob::parse(&bytes).unwrap().verify(&chain).unwrap_err();
    assert_eq!(error, VerifyError::PaperKey(paper.id()));
}

#[test]
fn another_account_or_epoch_is_refused() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = two(&one, &other);
    let elsewhere = Chain::begin(&other.genesis()).unwrap();
    let bytes = other.blob(&elsewhere, 1, Hash::ZERO, b"x");
    let error = Blob::parse(&bytes).unwrap().verify(&chain).unwrap_err();
    assert_eq!(error, VerifyError::WrongAccount);
    let mut rotated = chain.clone();
    let entry = one.next(&chain, EntryBody::Rotate { epoch: new_epoch(&chain) });
    rotated.extend(&entry).unwrap();
    let bytes = other.blob(&rotated, 1, Hash::ZERO, b"x");
    let error = Blob::parse(&bytes).unwrap().verify(&chain).unwrap_err();
    assert_eq!(error, VerifyError::UnknownEpoch(Epoch(1)));
    assert!(error.needs_chain());
    // Older epochs of active devices go on counting.
    let bytes = other.blob(&chain, 1, Hash::ZERO, b"x");
    Blob::parse(&bytes).unwrap().verify(&rotated).unwrap();
}

#[test]
fn an_unlinked_device_counts_up_to_its_cut() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let mut chain = two(&one, &other);
    let last = other.manifest(&chain, 5);
    let cut = AppManifestHead {
        app: app(),
        replica: other.replica(),
        n: ManifestNumber(5),
        hash: last.manifest.hash(),
    };
    let blob = other.blob(&chain, 1, Hash::ZERO, b"x");
    let before = other.manifest(&chain, 4);
    let beyond = other.manifest(&chain, 6);
    let mut forged = other.manifest(&chain, 5);
    forged.manifest.time_ms += 1;
    forged.signature = other.sign(&forged.manifest.signed_bytes());
    let entry = one.next(&chain, revocation(&chain, &[other.id()], &[cut]));
    chain.extend(&entry).unwrap();

    let verified = last.verify(&chain).unwrap();
    assert_eq!(verified.standing(), Standing::Cut(verified.mark()));
    before.verify(&chain).unwrap();
    let revoked = VerifyError::RevokedAuthor(other.id());
    assert_eq!(beyond.verify(&chain).unwrap_err(), revoked);
    assert_eq!(forged.verify(&chain).unwrap_err(), revoked);
    let blob = Blob::parse(&blob).unwrap().verify(&chain).unwrap();
    assert!(matches!(blob.standing(), Standing::Cut(_)));
}

#[test]
fn an_answer_counts_for_its_server_action_and_nonce() {
    let one = Actor::new(1);
    let token_key = Actor::new(8);
    let server = server_id(&token_key.public.signing);
    let account = AccountId([1; 16]);
    let challenge = Challenge { server, account, device: one.id(), nonce: [7; 32] };
    let signature = token_key.sign(&challenge.signed_bytes());
    challenge.verify(&token_key.public.signing, &signature).unwrap();
    // Another server's key, though it signed the same bytes.
    let evil = Actor::new(9);
    let relayed = evil.sign(&challenge.signed_bytes());
    assert!(challenge.verify(&evil.public.signing, &relayed).is_err());
    let other_device = Challenge { device: evil.id(), ..challenge };
    assert!(other_device.verify(&token_key.public.signing, &signature).is_err());

    let answer = one.sign(&signin::answer_bytes(server, Action::SignIn, &[7; 32]));
    let key = &one.public.signing;
    verify_answer(key, server, Action::SignIn, &[7; 32], &answer).unwrap();
    assert!(verify_answer(key, server, Action::DeleteAccount, &[7; 32], &answer).is_err());
    assert!(verify_answer(key, server, Action::SignIn, &[8; 32], &answer).is_err());
    let elsewhere = server_id(&evil.public.signing);
    assert!(verify_answer(key, elsewhere, Action::SignIn, &[7; 32], &answer).is_err());
}

#[test]
fn a_second_encoding_of_a_signature_is_refused() {
    // S + L is the same signature to a lax verifier (RFC 8032, 5.1.7 asks for S < L).
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = two(&one, &other);
    let mut manifest = one.manifest(&chain, 1);
    const L: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut carry = 0u16;
    for (byte, add) in manifest.signature.0[32..].iter_mut().zip(L) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = (sum & 0xff) as u8;
        carry = sum >> 8;
    }
    assert_eq!(carry, 0);
    assert_eq!(manifest.verify(&chain).unwrap_err(), VerifyError::BadSignature);
}
