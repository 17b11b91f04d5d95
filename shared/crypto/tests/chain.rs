//! Entries as this crate makes them, and the key ring that comes of their wraps.

use std::collections::BTreeSet;

use tidings_crypto::entries::{self, BuildError, open_name};
use tidings_crypto::*;
use tidings_proof::manifest::AppManifestHead;
use tidings_proof::*;
use tidings_wire::*;

use crate::support::*;

#[test]
fn every_entry_folds_and_comes_with_what_it_needs() {
    let rng = &mut SeedRng::new("every entry");
    let mut account = Account::new(rng);
    let (second, paper) = (DeviceKeys::generate(rng), PaperKey::generate(rng).device_keys());
    let mut made = vec![account.link(&second, rng), account.link(&paper, rng)];
    let name = |account: &Account, rng: &mut SeedRng| {
        entries::name_device(
            &account.keys,
            &account.chain,
            &account.ring,
            second.id(),
            "Mother's laptop",
            rng,
        )
        .unwrap()
    };
    made.push(name(&account, rng));
    account.take(made.last().unwrap());
    made.push(entries::rotate(&account.keys, &account.chain, &account.ring, rng).unwrap());
    account.take(made.last().unwrap());
    made.push(entries::set_floor(&account.keys, &account.chain, Floor::FIRST).unwrap());
    account.take(made.last().unwrap());
    let cut = AppManifestHead {
        app: app(),
        replica: Replica { device: second.id(), incarnation: Incarnation([1; 8]) },
        n: ManifestNumber(3),
        hash: Hash([4; 32]),
    };
    let revocation = entries::revoke_devices(
        &account.keys,
        &account.chain,
        &account.ring,
        BTreeSet::from([second.id()]),
        BTreeSet::from([cut]),
        rng,
    );
    made.push(revocation.unwrap());
    account.take(made.last().unwrap());
    for new in &made {
        let body = &new.entry.entry.body;
        check_wraps(&new.chain, body, &new.wraps, new.earlier.as_ref()).unwrap();
        assert_eq!(SignedEntry::decode(&new.entry.encode()).unwrap(), new.entry);
    }
    let folded = Chain::fold(account.chain.account(), &account.entries).unwrap();
    assert_eq!(folded, account.chain);
    let sealed = folded.devices()[&second.id()].name.as_ref().unwrap();
    assert_eq!(open_name(&account.ring, second.id(), sealed).unwrap(), "Mother's laptop");
    assert_eq!(open_name(&account.ring, paper.id(), sealed), None);
}

#[test]
fn a_new_device_needs_one_wrap_and_walks_back() {
    let rng = &mut SeedRng::new("walk back");
    let mut account = Account::new(rng);
    let mut earlier = Vec::new();
    for _ in 0..3 {
        let new = entries::rotate(&account.keys, &account.chain, &account.ring, rng).unwrap();
        earlier.push(new.earlier.clone().unwrap());
        account.take(&new);
    }
    let second = DeviceKeys::generate(rng);
    let new = account.link(&second, rng);
    let mut ring = Keyring::new(account.chain.account());
    let wrap = Wrap::decode(&new.wraps[0].encode()).unwrap();
    ring.accept_wrap(&account.chain, &second, &wrap).unwrap();
    assert_eq!(ring.newest(), Some(epoch(3)));
    assert_eq!(
        ring.accept_earlier(&account.chain, &earlier[0]),
        Err(KeyringError::MissingEpoch(epoch(1)))
    );
    for sealed in earlier.iter().rev() {
        let sealed = SealedEarlier::decode(&sealed.encode()).unwrap();
        ring.accept_earlier(&account.chain, &sealed).unwrap();
    }
    assert_eq!(ring.epochs().collect::<Vec<_>>(), [epoch(0), epoch(1), epoch(2), epoch(3)]);
    assert_eq!(ring.tag(&app(), "films"), account.ring.tag(&app(), "films"));
    let stored = Keyring::import(&ring.export()).unwrap();
    assert_eq!(*stored.export(), *ring.export());
    assert_eq!(stored.tag(&app(), "films"), ring.tag(&app(), "films"));
}

#[test]
fn wraps_that_were_injected_swapped_or_changed_are_refused() {
    let rng = &mut SeedRng::new("bad wraps");
    let mut account = Account::new(rng);
    let second = DeviceKeys::generate(rng);
    let linked = account.link(&second, rng);
    let rotated = entries::rotate(&account.keys, &account.chain, &account.ring, rng).unwrap();
    account.take(&rotated);
    let mut ring = Keyring::new(account.chain.account());
    let mut refused = |wrap: &Wrap| ring.accept_wrap(&account.chain, &second, wrap).unwrap_err();

    // A server that knows the public key wraps a secret of its own choice.
    let mut evil = Account::new(rng);
    let injected = evil.link(&second, rng).wraps.remove(0);
    assert_eq!(refused(&injected), KeyringError::BadWrap(epoch(0)));
    // One epoch's wrap under the other's number, and another device's wrap.
    let mut renumbered = linked.wraps[0].clone();
    renumbered.epoch = epoch(1);
    assert_eq!(refused(&renumbered), KeyringError::BadWrap(epoch(1)));
    let others = rotated.wraps.iter().find(|wrap| wrap.device == account.keys.id()).unwrap();
    assert_eq!(refused(others), KeyringError::BadWrap(epoch(1)));
    let mut unknown = linked.wraps[0].clone();
    unknown.epoch = epoch(9);
    assert_eq!(refused(&unknown), KeyringError::UnknownEpoch(epoch(9)));
    for at in [0, 500, 1_119] {
        let mut changed = linked.wraps[0].clone();
        changed.enc[at] ^= 1;
        assert_eq!(refused(&changed), KeyringError::BadWrap(epoch(0)), "enc byte {at}");
    }
    for at in 0..48 {
        let mut changed = linked.wraps[0].clone();
        changed.ciphertext[at] ^= 1;
        assert_eq!(refused(&changed), KeyringError::BadWrap(epoch(0)), "ciphertext byte {at}");
    }
    ring.accept_wrap(&account.chain, &second, &linked.wraps[0]).unwrap();
    // A wrong secret does not displace the right one.
    let wrong = EpochSecret::from_bytes([1; 32]);
    assert_eq!(ring.insert(&account.chain, epoch(0), wrong), Err(KeyringError::BadWrap(epoch(0))));
    assert!(ring.tag(&app(), "films") == account.ring.tag(&app(), "films"));
    assert_eq!(ring.accept_wrap(&evil.chain, &second, &injected), Err(KeyringError::WrongAccount));
}

#[test]
fn a_sealed_earlier_secret_must_be_the_one_in_the_chain() {
    let rng = &mut SeedRng::new("bad earlier");
    let mut account = Account::new(rng);
    let other_try = entries::rotate(&account.keys, &account.chain, &account.ring, rng).unwrap();
    let new = entries::rotate(&account.keys, &account.chain, &account.ring, rng).unwrap();
    account.take(&new);
    let mut ring = account.ring.clone();
    let bad = Err(KeyringError::BadWrap(epoch(0)));
    assert_eq!(ring.accept_earlier(&account.chain, other_try.earlier.as_ref().unwrap()), bad);
    let mut changed = new.earlier.clone().unwrap();
    changed.nonce[0] ^= 1;
    assert_eq!(ring.accept_earlier(&account.chain, &changed), bad);
    ring.accept_earlier(&account.chain, &new.earlier.unwrap()).unwrap();
}

#[test]
fn a_rotation_goes_on_where_a_secret_was_lost() {
    let rng = &mut SeedRng::new("lost");
    let mut account = Account::new(rng);
    let kept = account.ring.clone();
    let lost = entries::rotate(&account.keys, &account.chain, &account.ring, rng).unwrap();
    account.take(&lost);
    account.ring = kept;
    let next = entries::rotate(&account.keys, &account.chain, &account.ring, rng).unwrap();
    let sealed = next.earlier.clone().unwrap();
    assert_eq!((sealed.epoch, sealed.seals), (epoch(2), epoch(0)));
    account.take(&next);
    assert!(!account.ring.contains(epoch(1)));
    let mut ring = Keyring::new(account.chain.account());
    ring.accept_wrap(&account.chain, &account.keys, &next.wraps[0]).unwrap();
    ring.accept_earlier(&account.chain, &sealed).unwrap();
    assert_eq!(ring.epochs().collect::<Vec<_>>(), [epoch(0), epoch(2)]);
}

#[test]
fn an_unlinked_device_has_no_way_into_the_new_epoch() {
    let rng = &mut SeedRng::new("unlinked");
    let mut account = Account::new(rng);
    let second = DeviceKeys::generate(rng);
    let linked = account.link(&second, rng);
    let devices = BTreeSet::from([second.id()]);
    let new = entries::revoke_devices(
        &account.keys,
        &account.chain,
        &account.ring,
        devices,
        BTreeSet::new(),
        rng,
    )
    .unwrap();
    assert_eq!(new.wraps.len(), 1);
    assert_eq!(new.wraps[0].device, account.keys.id());
    account.take(&new);
    let mut ring = Keyring::new(account.chain.account());
    ring.accept_wrap(&account.chain, &second, &linked.wraps[0]).unwrap();
    assert!(ring.accept_wrap(&account.chain, &second, &new.wraps[0]).is_err());
    let own = [second.id()].into();
    let error = entries::revoke_devices(&second, &linked.chain, &ring, own, BTreeSet::new(), rng);
    assert_eq!(error.unwrap_err(), BuildError::Chain(ChainError::RevokesSigner));
}

#[test]
fn mistakes_are_told_before_anything_is_sent() {
    let rng = &mut SeedRng::new("mistakes");
    let account = Account::new(rng);
    let second = DeviceKeys::generate(rng);
    let empty = Keyring::new(account.chain.account());
    let at_wrong_index = second.co_sign(account.chain.account(), ChainIndex(7));
    let error = entries::add_device(
        &account.keys,
        &account.chain,
        &account.ring,
        second.public(),
        at_wrong_index,
        rng,
    );
    assert_eq!(error.unwrap_err(), BuildError::Chain(ChainError::BadCoSignature));
    let error = entries::rotate(&account.keys, &account.chain, &empty, rng).unwrap_err();
    assert_eq!(error, BuildError::MissingEpoch(epoch(0)));
    let long = "x".repeat(entries::NAME + 1);
    let error = entries::name_device(
        &account.keys,
        &account.chain,
        &account.ring,
        account.keys.id(),
        &long,
        rng,
    );
    assert_eq!(error.unwrap_err(), BuildError::NameTooLong);
    let error = entries::rotate(&second, &account.chain, &account.ring, rng).unwrap_err();
    assert_eq!(error, BuildError::Chain(ChainError::BadSigner(second.id())));
}

#[test]
fn nothing_is_wrapped_to_a_damaged_key() {
    let rng = &mut SeedRng::new("damaged key");
    let account = Account::new(rng);
    let second = DeviceKeys::generate(rng);
    let mut damaged = second.public().clone();
    damaged.wrapping.fill(0xff);
    let bytes = damaged.co_signed_bytes(account.chain.account(), account.chain.next_index());
    let seed: [u8; 32] = second.export()[2..34].try_into().unwrap();
    let key = ed25519_dalek::SigningKey::from_bytes(&seed);
    let signature = Signature(ed25519_dalek::Signer::sign(&key, &bytes).to_bytes());
    let (keys, ring) = (&account.keys, &account.ring);
    let error = entries::add_device(keys, &account.chain, ring, &damaged, signature, rng);
    assert_eq!(error.unwrap_err(), BuildError::BadKey(damaged.id()));
}

#[test]
fn keys_come_back_from_the_keychain() {
    let keys = DeviceKeys::generate(&mut random::system());
    let back = DeviceKeys::import(&keys.export()).unwrap();
    assert_eq!(back.public(), keys.public());
    assert_eq!(*back.export(), *keys.export());
    let bytes = keys.export();
    for len in 0..bytes.len() {
        assert!(DeviceKeys::import(&bytes[..len]).is_err());
    }
    assert!(DeviceKeys::import(&[bytes.as_slice(), &[0]].concat()).is_err());
}
