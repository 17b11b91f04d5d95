//! What the fold takes and what it refuses, one rule per test.

use tidings_proof::manifest::AppManifestHead;
use tidings_proof::*;
use tidings_wire::*;

use crate::support::*;

fn refused(chain: &Chain, entry: &SignedEntry) -> ChainError {
    let mut copy = chain.clone();
    let error = copy.extend(entry).unwrap_err();
    assert_eq!(&copy, chain, "a refused entry changed the chain");
    error
}

#[test]
fn the_account_is_the_hash_of_its_genesis() {
    let one = Actor::new(1);
    let genesis = one.genesis();
    let chain = Chain::begin(&genesis).unwrap();
    assert_eq!(chain.account().0, genesis.entry.hash().0[..16]);
    assert_eq!(Chain::fold(chain.account(), [&genesis]).unwrap(), chain);
    assert_eq!(Chain::fold(AccountId([9; 16]), [&genesis]), Err(ChainError::WrongAccount));
    assert_eq!(Chain::fold(chain.account(), []), Err(ChainError::NoGenesis));
    assert_eq!(chain.newest_epoch(), Epoch(0));
    assert!(chain.is_active(one.id()));
}

#[test]
fn a_genesis_is_signed_by_the_computer_in_it() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let mut entry = one.genesis().entry;
    entry.signer = other.id();
    assert_eq!(Chain::begin(&other.signed(entry)), Err(ChainError::BadSigner(other.id())));
    let mut forged = one.genesis();
    forged.signature = other.sign(&forged.entry.signed_bytes());
    assert_eq!(Chain::begin(&forged), Err(ChainError::BadSignature));
    let paper = Actor::of_kind(3, DeviceKind::Paper);
    assert_eq!(Chain::begin(&paper.genesis()), Err(ChainError::GenesisNotComputer));
    let mut named = one.genesis().entry;
    named.account = AccountId([1; 16]);
    assert_eq!(Chain::begin(&one.signed(named)), Err(ChainError::WrongAccount));
}

#[test]
fn entries_follow_the_head_exactly() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = Chain::begin(&one.genesis()).unwrap();
    let right = one.next(&chain, other.joins(&chain)).entry;
    for change in [
        |entry: &mut Entry| entry.index = ChainIndex(0),
        |entry: &mut Entry| entry.index = ChainIndex(2),
        |entry: &mut Entry| entry.index = ChainIndex(u64::MAX),
        |entry: &mut Entry| entry.prev = Hash([9; 32]),
    ] {
        let mut wrong = right.clone();
        change(&mut wrong);
        let error = refused(&chain, &one.signed(wrong));
        assert!(matches!(error, ChainError::DoesNotFollow { .. }), "{error:?}");
    }
    let mut foreign = right;
    foreign.account = AccountId([9; 16]);
    assert_eq!(refused(&chain, &one.signed(foreign)), ChainError::WrongAccount);
}

#[test]
fn only_active_devices_sign() {
    let (one, other, stranger) = (Actor::new(1), Actor::new(2), Actor::new(3));
    let mut chain = two(&one, &other);
    let strange = stranger.next(&chain, stranger.joins(&chain));
    assert_eq!(refused(&chain, &strange), ChainError::BadSigner(stranger.id()));
    let entry = one.next(&chain, revocation(&chain, &[other.id()], &[]));
    chain.extend(&entry).unwrap();
    let late = other.next(&chain, stranger.joins(&chain));
    assert_eq!(refused(&chain, &late), ChainError::BadSigner(other.id()));
}

#[test]
fn an_added_device_must_have_signed_for_this_place() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = Chain::begin(&one.genesis()).unwrap();
    let elsewhere = Chain::begin(&Actor::new(5).genesis()).unwrap();
    let body = |bytes: Vec<u8>| EntryBody::AddDevice {
        device: other.public.clone(),
        co_signature: other.sign(&bytes),
    };
    for bytes in [
        other.public.co_signed_bytes(elsewhere.account(), chain.next_index()),
        other.public.co_signed_bytes(chain.account(), ChainIndex(2)),
    ] {
        let entry = one.next(&chain, body(bytes));
        assert_eq!(refused(&chain, &entry), ChainError::BadCoSignature);
    }
    // Its signature covers both keys: another wrapping key beside the same signing key fails.
    let mut swapped = other.public.clone();
    swapped.wrapping = Box::new([0x77; DevicePublic::WRAPPING_LEN]);
    let bytes = other.public.co_signed_bytes(chain.account(), chain.next_index());
    let body = EntryBody::AddDevice { device: swapped, co_signature: other.sign(&bytes) };
    assert_eq!(refused(&chain, &one.next(&chain, body)), ChainError::BadCoSignature);
}

#[test]
fn ids_and_keys_are_there_once() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let mut chain = two(&one, &other);
    let again = one.next(&chain, other.joins(&chain));
    assert_eq!(refused(&chain, &again), ChainError::DuplicateDevice(other.id()));
    let mut half = Actor::new(3);
    half.public.wrapping = other.public.wrapping.clone();
    let entry = one.next(&chain, half.joins(&chain));
    assert_eq!(refused(&chain, &entry), ChainError::DuplicateDevice(half.id()));
    let entry = one.next(&chain, revocation(&chain, &[other.id()], &[]));
    chain.extend(&entry).unwrap();
    let back = one.next(&chain, other.joins(&chain));
    assert_eq!(refused(&chain, &back), ChainError::DuplicateDevice(other.id()));
}

#[test]
fn a_weak_key_joins_nobody() {
    let one = Actor::new(1);
    let chain = Chain::begin(&one.genesis()).unwrap();
    let mut weak = Actor::new(2).public;
    weak.signing = [0; 32];
    weak.signing[0] = 1;
    let id = weak.id();
    let body = EntryBody::AddDevice { device: weak, co_signature: Signature([0; 64]) };
    assert_eq!(refused(&chain, &one.next(&chain, body)), ChainError::WeakKey(id));
}

#[test]
fn an_account_has_a_bounded_number_of_devices() {
    let one = Actor::new(0);
    let mut chain = Chain::begin(&one.genesis()).unwrap();
    for seed in 1..=255 {
        let entry = one.next(&chain, Actor::new(seed).joins(&chain));
        chain.extend(&entry).unwrap();
    }
    let key = ed25519_dalek::SigningKey::from_bytes(b"a key that is none of the seeds'");
    let fresh = Actor::with_key(key, DeviceKind::Paper);
    let entry = one.next(&chain, fresh.joins(&chain));
    assert_eq!(refused(&chain, &entry), ChainError::TooManyDevices);
    let leave = one.next(&chain, revocation(&chain, &[Actor::new(9).id()], &[]));
    chain.extend(&leave).unwrap();
    let entry = one.next(&chain, fresh.joins(&chain));
    chain.extend(&entry).unwrap();
}

#[test]
fn a_revocation_names_others_that_are_active() {
    let (one, other, third) = (Actor::new(1), Actor::new(2), Actor::new(3));
    let mut chain = two(&one, &other);
    let try_one = |chain: &Chain, devices: &[DeviceId], cuts: &[Cut]| {
        refused(chain, &one.next(chain, revocation(chain, devices, cuts)))
    };
    assert_eq!(try_one(&chain, &[], &[]), ChainError::EmptyRevocation);
    assert_eq!(try_one(&chain, &[one.id()], &[]), ChainError::RevokesSigner);
    assert_eq!(try_one(&chain, &[third.id()], &[]), ChainError::NotActive(third.id()));
    let cut = |actor: &Actor, n| AppManifestHead {
        app: app(),
        replica: actor.replica(),
        n: ManifestNumber(n),
        hash: Hash([2; 32]),
    };
    assert_eq!(try_one(&chain, &[other.id()], &[cut(&one, 1)]), ChainError::BadCut);
    let twice = [cut(&other, 1), cut(&other, 2)];
    assert_eq!(try_one(&chain, &[other.id()], &twice), ChainError::BadCut);

    let entry = one.next(&chain, revocation(&chain, &[other.id()], &[cut(&other, 5)]));
    chain.extend(&entry).unwrap();
    assert!(!chain.is_active(other.id()));
    assert_eq!(chain.newest_epoch(), Epoch(1));
    let mark = tidings_wire::sync::ManifestMark { n: ManifestNumber(5), hash: Hash([2; 32]) };
    let standing = chain.author(chain.account(), &app(), other.replica());
    assert_eq!(standing, Ok(Standing::Cut(mark)));
    let elsewhere = Replica { device: other.id(), incarnation: Incarnation([2; 8]) };
    let nothing = chain.author(chain.account(), &app(), elsewhere);
    assert_eq!(nothing, Err(VerifyError::RevokedAuthor(other.id())));
    assert_eq!(try_one(&chain, &[other.id()], &[]), ChainError::NotActive(other.id()));
}

#[test]
fn epochs_rise_by_one_and_seal_earlier_ones() {
    let one = Actor::new(1);
    let mut chain = Chain::begin(&one.genesis()).unwrap();
    let rotate = |chain: &Chain, change: fn(&mut NewEpoch)| {
        let mut epoch = new_epoch(chain);
        change(&mut epoch);
        one.next(chain, EntryBody::Rotate { epoch })
    };
    for change in [
        (|epoch: &mut NewEpoch| epoch.epoch = Epoch(2)) as fn(&mut NewEpoch),
        |epoch| epoch.epoch = Epoch(0),
        |epoch| epoch.seals = Epoch(1),
        |epoch| epoch.seals = Epoch(u32::MAX),
    ] {
        let error = refused(&chain, &rotate(&chain, change));
        assert!(matches!(error, ChainError::BadEpoch(_)), "{error:?}");
    }
    let first = rotate(&chain, |_| {});
    chain.extend(&first).unwrap();
    // The secret of epoch 1 was lost: epoch 2 seals that of epoch 0.
    let second = rotate(&chain, |epoch| epoch.seals = Epoch(0));
    chain.extend(&second).unwrap();
    assert_eq!(chain.epochs()[&Epoch(2)].seals, Some((Epoch(0), Hash([0xea; 32]))));
    assert_eq!(chain.epochs()[&Epoch(0)].seals, None);
}

#[test]
fn names_are_for_active_devices() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let mut chain = two(&one, &other);
    let name = |device| EntryBody::Name { device, sealed: vec![1, 2, 3] };
    let entry = one.next(&chain, name(other.id()));
    chain.extend(&entry).unwrap();
    assert_eq!(chain.devices()[&other.id()].name.as_deref(), Some([1, 2, 3].as_slice()));
    let unknown = Actor::new(9).id();
    let entry = one.next(&chain, name(unknown));
    assert_eq!(refused(&chain, &entry), ChainError::NotActive(unknown));
}

#[test]
fn the_floor_rises_only_as_far_as_this_release_knows() {
    let one = Actor::new(1);
    let mut chain = Chain::begin(&one.genesis()).unwrap();
    let set = |chain: &Chain, format, suite| {
        one.next(chain, EntryBody::SetFloor(Floor { format, suite }))
    };
    assert_eq!(refused(&chain, &set(&chain, 0, 1)), ChainError::FloorFalls);
    assert_eq!(refused(&chain, &set(&chain, 1, 0)), ChainError::FloorFalls);
    assert!(refused(&chain, &set(&chain, 2, 1)).needs_newer());
    assert!(refused(&chain, &set(&chain, 1, 2)).needs_newer());
    let same = set(&chain, 1, 1);
    chain.extend(&same).unwrap();
    assert_eq!(chain.floor(), Floor::FIRST);
}

#[test]
fn an_unknown_kind_needs_a_newer_release() {
    let one = Actor::new(1);
    let chain = Chain::begin(&one.genesis()).unwrap();
    let entry = one.next(&chain, EntryBody::SetFloor(Floor::FIRST));
    let mut bytes = entry.encode();
    let kind_at = 1 + 16 + 8 + 32;
    bytes[kind_at] = 7;
    let error = SignedEntry::decode(&bytes).unwrap_err();
    assert_eq!(error, DecodeError::NeedsNewer { what: "chain entry kind", found: 7 });
    bytes[0] = 2;
    let error = SignedEntry::decode(&bytes).unwrap_err();
    assert_eq!(error, DecodeError::NeedsNewer { what: "chain entry format", found: 2 });
}

#[test]
fn an_entry_has_a_bounded_size() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = two(&one, &other);
    let cuts: Vec<Cut> = (0..600u32)
        .map(|number| AppManifestHead {
            app: format!("a{number:063}").parse().unwrap(),
            replica: other.replica(),
            n: ManifestNumber(1),
            hash: Hash([1; 32]),
        })
        .collect();
    let entry = one.next(&chain, revocation(&chain, &[other.id()], &cuts));
    assert!(matches!(
        refused(&chain, &entry),
        ChainError::Decode(DecodeError::TooLong { limit: limits::CHAIN_ENTRY, .. })
    ));
    assert!(matches!(SignedEntry::decode(&entry.encode()), Err(DecodeError::TooLong { .. })));
    let entry = one.next(&chain, revocation(&chain, &[other.id()], &cuts[..480]));
    chain.clone().extend(&entry).unwrap();
}

#[test]
fn chains_compare_by_their_entries() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let short = Chain::begin(&one.genesis()).unwrap();
    let long = two(&one, &other);
    let forked = two(&one, &Actor::new(3));
    assert_eq!(short.compare(&short), Relation::Same);
    assert_eq!(short.compare(&long), Relation::Later);
    assert_eq!(long.compare(&short), Relation::Earlier);
    assert_eq!(long.compare(&forked), Relation::Fork);
    let mut longer_fork = forked.clone();
    let entry = one.next(&forked, Actor::new(4).joins(&forked));
    longer_fork.extend(&entry).unwrap();
    assert_eq!(long.compare(&longer_fork), Relation::Fork);
    assert_eq!(longer_fork.compare(&long), Relation::Fork);
    assert_eq!(long.relation(head(7, 1)), Relation::Later);
    assert_eq!(long.relation(head(0, 1)), Relation::Fork);
    assert_eq!(long.relation(short.head()), Relation::Earlier);
    assert_eq!(long.relation(long.head()), Relation::Same);
}

#[test]
fn an_entry_comes_with_exactly_its_wraps() {
    let (one, other, third) = (Actor::new(1), Actor::new(2), Actor::new(3));
    let wrap = |epoch, device: &Actor| Wrap {
        epoch: Epoch(epoch),
        device: device.id(),
        enc: Box::new([1; Wrap::ENC_LEN]),
        ciphertext: [2; 48],
    };
    let earlier =
        SealedEarlier { epoch: Epoch(1), seals: Epoch(0), nonce: [3; 24], ciphertext: [4; 48] };
    let chain = two(&one, &other);

    let joins = third.joins(&chain);
    let mut joined = chain.clone();
    let entry = one.next(&chain, joins.clone());
    joined.extend(&entry).unwrap();
    assert_eq!(check_wraps(&joined, &joins, &[wrap(0, &third)], None), Ok(()));
    assert_eq!(check_wraps(&joined, &joins, &[], None), Err(WrapsError::Missing(third.id())));
    assert_eq!(
        check_wraps(&joined, &joins, &[wrap(0, &third), wrap(0, &third)], None),
        Err(WrapsError::Stray(Epoch(0), third.id()))
    );
    assert_eq!(
        check_wraps(&joined, &joins, &[wrap(0, &third)], Some(&earlier)),
        Err(WrapsError::Earlier)
    );

    let epoch = NewEpoch { earlier: earlier.hash(), ..new_epoch(&chain) };
    let rotate = EntryBody::Rotate { epoch };
    let mut rotated = chain.clone();
    let entry = one.next(&chain, rotate.clone());
    rotated.extend(&entry).unwrap();
    let both = [wrap(1, &other), wrap(1, &one)];
    assert_eq!(check_wraps(&rotated, &rotate, &both, Some(&earlier)), Ok(()));
    assert_eq!(check_wraps(&rotated, &rotate, &both, None), Err(WrapsError::Earlier));
    let mut tampered = earlier.clone();
    tampered.ciphertext[0] ^= 1;
    assert_eq!(check_wraps(&rotated, &rotate, &both, Some(&tampered)), Err(WrapsError::Earlier));
    assert!(check_wraps(&rotated, &rotate, &both[..1], Some(&earlier)).is_err());
    assert_eq!(
        check_wraps(&rotated, &rotate, &[wrap(0, &one), wrap(1, &other)], Some(&earlier)),
        Err(WrapsError::Stray(Epoch(0), one.id()))
    );
}
