//! Round trips, strictness, and hostile bytes.

use proptest::prelude::*;
use tidings_proof::manifest::AppManifestHead;
use tidings_proof::*;
use tidings_wire::*;

use crate::support::*;

/// Reads an encoding and writes it again.
type Again = fn(&[u8]) -> Result<Vec<u8>, DecodeError>;

/// What an entry does, given the chain before it.
type Body<'a> = Box<dyn Fn(&Chain) -> EntryBody + 'a>;

/// Every entry kind, on a chain that takes each of them.
fn entries() -> Vec<SignedEntry> {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let genesis = one.genesis();
    let mut chain = Chain::begin(&genesis).unwrap();
    let mut all = vec![genesis];
    let cut = AppManifestHead {
        app: app(),
        replica: other.replica(),
        n: ManifestNumber(5),
        hash: Hash([2; 32]),
    };
    let bodies: [Body<'_>; 5] = [
        Box::new(|chain| other.joins(chain)),
        Box::new(|_| EntryBody::Name { device: other.id(), sealed: vec![9; 60] }),
        Box::new(|chain| EntryBody::Rotate { epoch: new_epoch(chain) }),
        Box::new(|_| EntryBody::SetFloor(Floor::FIRST)),
        Box::new(|chain| revocation(chain, &[other.id()], std::slice::from_ref(&cut))),
    ];
    for body in bodies {
        let entry = one.next(&chain, body(&chain));
        chain.extend(&entry).unwrap();
        all.push(entry);
    }
    all
}

/// Each encoding and a function that reads it back into bytes.
fn samples() -> Vec<(Vec<u8>, Again)> {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = two(&one, &other);
    let blob = one.blob(&chain, 1, Hash::ZERO, b"body");
    let header = Blob::parse(&blob).unwrap().signed_header().encode();
    let wrap = Wrap {
        epoch: Epoch(1),
        device: one.id(),
        enc: Box::new([1; Wrap::ENC_LEN]),
        ciphertext: [2; 48],
    };
    let earlier =
        SealedEarlier { epoch: Epoch(1), seals: Epoch(0), nonce: [3; 24], ciphertext: [4; 48] };
    let mut samples: Vec<(Vec<u8>, Again)> = vec![
        (blob, |bytes| Blob::parse(bytes).map(|blob| blob.bytes().to_vec())),
        (header, |bytes| SignedHeader::decode(bytes).map(|header| header.encode())),
        (one.manifest(&chain, 1).encode(), |bytes| {
            SignedManifest::decode(bytes).map(|manifest| manifest.encode())
        }),
        (one.run(&chain).encode(), |bytes| SignedRun::decode(bytes).map(|run| run.encode())),
        (wrap.encode(), |bytes| Wrap::decode(bytes).map(|wrap| wrap.encode())),
        (earlier.encode(), |bytes| SealedEarlier::decode(bytes).map(|earlier| earlier.encode())),
    ];
    for entry in entries() {
        samples
            .push((entry.encode(), |bytes| SignedEntry::decode(bytes).map(|entry| entry.encode())));
    }
    samples
}

#[test]
fn what_is_written_is_read() {
    for (bytes, again) in samples() {
        assert_eq!(again(&bytes).unwrap(), bytes);
    }
    assert_eq!(Wrap::LEN, samples()[4].0.len());
    assert_eq!(SealedEarlier::LEN, samples()[5].0.len());
}

#[test]
fn no_prefix_and_no_longer_one_is_read() {
    for (number, (bytes, again)) in samples().into_iter().enumerate() {
        for len in 0..bytes.len() {
            // A blob's sealed body has no length of its own, so that a shorter one may parse;
            // its signature then fails.
            assert!(number == 0 || again(&bytes[..len]).is_err(), "sample {number} cut to {len}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(number == 0 || again(&longer).is_err(), "sample {number} with a byte more");
    }
}

#[test]
fn one_value_has_one_encoding() {
    // Whatever other bytes still parse must encode to themselves.
    for (bytes, again) in samples() {
        for at in 0..bytes.len() {
            for flip in [1, 0x80] {
                let mut other = bytes.clone();
                other[at] ^= flip;
                if let Ok(encoded) = again(&other) {
                    assert_eq!(encoded, other);
                }
            }
        }
    }
}

#[test]
fn later_formats_are_told_from_damage() {
    for (bytes, again) in samples() {
        let mut later = bytes.clone();
        later[0] = 2;
        assert!(matches!(again(&later), Err(DecodeError::NeedsNewer { found: 2, .. })));
        later[0] = 0;
        assert!(matches!(again(&later), Err(DecodeError::Invalid(_))));
    }
}

#[test]
fn lists_out_of_order_are_refused() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = two(&one, &other);
    let bytes = one.manifest(&chain, 1).encode();
    let first = 1 + 16 + 1 + 6 + 16 + 8 + 8 + 8 + 4;
    let mut swapped = bytes.clone();
    swapped[first..first + 56].copy_from_slice(&bytes[first + 56..first + 112]);
    swapped[first + 56..first + 112].copy_from_slice(&bytes[first..first + 56]);
    let error = SignedManifest::decode(&swapped).unwrap_err();
    assert_eq!(error, DecodeError::Invalid("a list is not in rising order"));
    let mut doubled = bytes.clone();
    doubled[first + 56..first + 112].copy_from_slice(&bytes[first..first + 56]);
    assert!(SignedManifest::decode(&doubled).is_err());
}

#[test]
fn covers_that_overlap_or_run_backwards_are_refused() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = two(&one, &other);
    let replica = one.replica();
    let with = |from: u64, prev: Hash, to: u64| {
        let mut run = one.run(&chain);
        let cover = Cover { prev, to: Seq(to), hash: Hash([1; 32]) };
        run.statement.covers.insert((replica, Seq(from)), cover);
        SignedRun::decode(&run.encode()).map(|_| ())
    };
    assert_eq!(with(10, Hash([1; 32]), 12), Ok(()));
    for (from, prev, to) in [
        (2, Hash([1; 32]), 2),
        (9, Hash([1; 32]), 12),
        (12, Hash([1; 32]), 11),
        (0, Hash::ZERO, 0),
        (1, Hash([1; 32]), 3),
    ] {
        assert!(with(from, prev, to).is_err(), "{from}..={to}");
    }
}

#[test]
fn hostile_counts_are_refused_before_anything_is_reserved() {
    let (one, other) = (Actor::new(1), Actor::new(2));
    let chain = two(&one, &other);
    let mut bytes = one.run(&chain).encode();
    let covers_at = 2 + 16 + 1 + 6 + 24 + 16;
    bytes[covers_at..covers_at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(SignedRun::decode(&bytes).unwrap_err(), DecodeError::Short("covers"));
    let huge = vec![1; limits::RUN_STATEMENT + 1];
    assert!(matches!(SignedRun::decode(&huge), Err(DecodeError::TooLong { .. })));
    assert!(matches!(Blob::parse(&huge), Err(DecodeError::TooLong { .. })));
    assert!(matches!(SignedManifest::decode(&huge), Err(DecodeError::TooLong { .. })));
    assert!(matches!(SignedEntry::decode(&huge), Err(DecodeError::TooLong { .. })));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        for (_, again) in samples_once() {
            let _ = again(&bytes);
        }
    }

    #[test]
    fn damaged_encodings_never_panic(
        sample in 0..samples_once().len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let (bytes, again) = &samples_once()[sample];
        let mut bytes = bytes.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(encoded) = again(&bytes) {
            prop_assert_eq!(encoded, bytes);
        }
    }

    #[test]
    fn fields_survive_a_round_trip(
        small in any::<u8>(), middle in any::<u16>(), large in any::<u32>(), huge in any::<u64>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..300), app in "[a-z0-9][a-z0-9._-]{0,63}",
    ) {
        let app: AppId = app.parse().unwrap();
        let mut writer = Writer::new();
        writer.u8(small).u16(middle).u32(large).u64(huge).bytes(&bytes).app(&app);
        let encoded = writer.finish();
        let mut reader = Reader::new(&encoded);
        prop_assert_eq!(reader.u8("").unwrap(), small);
        prop_assert_eq!(reader.u16("").unwrap(), middle);
        prop_assert_eq!(reader.u32("").unwrap(), large);
        prop_assert_eq!(reader.u64("").unwrap(), huge);
        prop_assert_eq!(reader.bytes("", 300).unwrap(), bytes.as_slice());
        prop_assert_eq!(reader.app().unwrap(), app);
        prop_assert_eq!(reader.finish(), Ok(()));
    }
}

/// [`samples`], made once for all cases of a property.
fn samples_once() -> &'static [(Vec<u8>, Again)] {
    static SAMPLES: std::sync::OnceLock<Vec<(Vec<u8>, Again)>> = std::sync::OnceLock::new();
    SAMPLES.get_or_init(samples)
}
