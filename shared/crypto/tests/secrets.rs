//! Nothing secret shows in `Debug`.

use insta::assert_snapshot;
use tidings_crypto::pairing::{
    Inviter, Joiner, PairingCode, Pake, PakeIdentities, Role, SpakeEd25519,
};
use tidings_crypto::{EpochSecret, Keyring, PaperKey, entries};
use tidings_wire::{AccountId, Nameplate};

use crate::support::*;

#[test]
fn debug_of_secrets_tells_nothing() {
    let mut rng = SeedRng::new("secrets");
    let account = Account::new(&mut rng);
    let keys = format!("{:?}", account.keys);
    assert_snapshot!(keys.replace(&account.keys.id().to_string(), "ID"),
        @"DeviceKeys { kind: Computer, id: DeviceId(ID), .. }");
    let ring = format!("{:?}", account.ring);
    assert_snapshot!(ring.replace(&account.chain.account().to_string(), "ID"),
        @"Keyring { account: AccountId(ID), epochs: [Epoch(0)], .. }");
    assert_snapshot!(format!("{:?}", EpochSecret::from_bytes([7; 32])), @"EpochSecret(..)");
    assert_snapshot!(format!("{:?}", Keyring::new(AccountId([0; 16]))),
        @"Keyring { account: AccountId(00000000000000000000000000000000), epochs: [], .. }");
    let paper = PaperKey::generate(&mut rng);
    assert_snapshot!(format!("{paper:?}"), @"PaperKey(..)");
    assert_snapshot!(format!("{:?}", paper.words()), @"SecretBox<str>([REDACTED])");
    let new = entries::rotate(&account.keys, &account.chain, &account.ring, &mut rng).unwrap();
    assert_snapshot!(format!("{:?}", new.secret), @"Some((Epoch(1), EpochSecret(..)))");

    let code = PairingCode::generate(Nameplate(42), &mut rng);
    assert_snapshot!(format!("{code:?}"), @"PairingCode { nameplate: Nameplate(42), .. }");
    let (joiner, first) = Joiner::start(&code, server(), &mut rng);
    assert_snapshot!(format!("{joiner:?}"), @r#"Joiner { state: "started", .. }"#);
    let (inviter, _) = Inviter::start(&code, server(), &first, &mut rng).unwrap();
    assert_snapshot!(format!("{inviter:?}"), @r#"Inviter { state: "started", .. }"#);
    let identities = PakeIdentities::new(server(), Nameplate(42));
    let (pake, _) = SpakeEd25519::start(Role::New, b"password", &identities, &mut rng);
    assert_snapshot!(format!("{pake:?}"), @"SpakeEd25519(..)");
}

#[test]
fn no_secret_byte_is_in_any_debug_text() {
    let mut rng = SeedRng::new("canaries");
    let account = Account::new(&mut rng);
    let exported = [account.keys.export(), account.ring.export()];
    let text = format!("{:?} {:?}", account.keys, account.ring);
    // After the format and kind (keys) or format, account and counts (ring) all is secret.
    for (bytes, from) in [(&exported[0], 2), (&exported[1], 25)] {
        for window in bytes[from..].windows(4) {
            assert!(!text.contains(&hex(window)), "{text}");
            let listed = window.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
            assert!(!text.contains(&listed), "{text}");
        }
    }
}
