//! Vectors of keys: a device, a paper key, signing in.

use serde_json::{Value, json};
use tidings_crypto::{DeviceKeys, PaperKey, answer_challenge};
use tidings_proof::signin::{Challenge, verify_answer};
use tidings_proof::{DeviceKind, Signature, server_id};
use tidings_wire::auth::Action;
use tidings_wire::{AccountId, ChainIndex};

use super::{array, bytes, number, text};
use crate::second;
use crate::support::*;

pub fn make() -> Value {
    let keys = DeviceKeys::generate(&mut SeedRng::new("vector: device"));
    let exported = keys.export();
    let account = AccountId([0xac; 16]);
    json!({
        "exported": hex(&*exported),
        "signing_seed": hex(&exported[2..34]),
        "wrapping_seed": hex(&exported[34..]),
        "signing_public": hex(keys.public().signing),
        "wrapping_public": hex(keys.public().wrapping.as_slice()),
        "device_id": keys.id().to_string(),
        "account": account.to_string(),
        "index": 3,
        "co_signature": hex(keys.co_sign(account, ChainIndex(3)).0),
    })
}

pub fn open(vector: &Value) {
    let keys = DeviceKeys::import(&bytes(vector, "exported")).unwrap();
    let exported =
        [&[1, 1], bytes(vector, "signing_seed").as_slice(), &bytes(vector, "wrapping_seed")]
            .concat();
    assert_eq!(*keys.export(), exported);
    assert_eq!(keys.public().kind, DeviceKind::Computer);
    assert_eq!(keys.public().signing.to_vec(), bytes(vector, "signing_public"));
    assert_eq!(keys.public().wrapping.to_vec(), bytes(vector, "wrapping_public"));
    assert_eq!(keys.id().to_string(), text(vector, "device_id"));
    let account: AccountId = text(vector, "account").parse().unwrap();
    let index = number(vector, "index");
    let signature = Signature(array(vector, "co_signature"));
    keys.public().verify_co_signature(account, ChainIndex(index), &signature).unwrap();

    let both = [bytes(vector, "signing_public"), bytes(vector, "wrapping_public")].concat();
    let id = blake3::derive_key("tidings/1/device-id", &both);
    assert_eq!(hex(&id[..16]), text(vector, "device_id"));
    let signed = [&account.0[..], &index.to_be_bytes(), &bytes(vector, "device_id")].concat();
    let key = bytes(vector, "signing_public");
    assert!(second::signed(&key, "co-signature", &signed, &bytes(vector, "co_signature")));
}

const WORDS: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";

pub fn make_paper() -> Value {
    let keys = PaperKey::parse(WORDS).unwrap().device_keys();
    json!({
        "words": WORDS,
        "bip39_seed": hex(bip39::Mnemonic::parse_in_normalized(bip39::Language::English, WORDS)
            .unwrap().to_seed_normalized("")),
        "exported": hex(&*keys.export()),
        "device_id": keys.id().to_string(),
    })
}

pub fn open_paper(vector: &Value) {
    let keys = PaperKey::parse(text(vector, "words")).unwrap().device_keys();
    assert_eq!(keys.public().kind, DeviceKind::Paper);
    assert_eq!(keys.export().to_vec(), bytes(vector, "exported"));
    assert_eq!(keys.id().to_string(), text(vector, "device_id"));

    let seed = bytes(vector, "bip39_seed");
    let (signing, wrapping) =
        (second::derive(&seed, "paper-signing", &[]), second::derive(&seed, "paper-wrapping", &[]));
    let exported = [&[1, 2][..], &signing, &wrapping].concat();
    assert_eq!(exported, bytes(vector, "exported"));
}

pub fn make_sign_in() -> Value {
    let mut rng = SeedRng::new("vector: sign in");
    let (server, device) = (DeviceKeys::generate(&mut rng), DeviceKeys::generate(&mut rng));
    let token_key = server.public().signing;
    let challenge = Challenge {
        server: server_id(&token_key),
        account: AccountId([0xac; 16]),
        device: device.id(),
        nonce: [0x2f; 32],
    };
    let seed: [u8; 32] = server.export()[2..34].try_into().unwrap();
    let signing = ed25519_dalek::SigningKey::from_bytes(&seed);
    let signature = ed25519_dalek::Signer::sign(&signing, &challenge.signed_bytes()).to_bytes();
    let answer = |action| {
        let signature = Signature(signature);
        hex(answer_challenge(&device, &challenge, &token_key, &signature, action).unwrap().0)
    };
    json!({
        "token_key": hex(token_key),
        "server_id": challenge.server.to_string(),
        "account": challenge.account.to_string(),
        "device_id": challenge.device.to_string(),
        "signing_public": hex(device.public().signing),
        "nonce": hex(challenge.nonce),
        "challenge_signature": hex(signature),
        "sign_in": answer(Action::SignIn),
        "delete_account": answer(Action::DeleteAccount),
    })
}

pub fn open_sign_in(vector: &Value) {
    let token_key = array(vector, "token_key");
    let challenge = Challenge {
        server: text(vector, "server_id").parse().unwrap(),
        account: text(vector, "account").parse().unwrap(),
        device: text(vector, "device_id").parse().unwrap(),
        nonce: array(vector, "nonce"),
    };
    challenge.verify(&token_key, &Signature(array(vector, "challenge_signature"))).unwrap();
    let key = array(vector, "signing_public");
    for action in [Action::SignIn, Action::DeleteAccount] {
        let signature = Signature(array(vector, action.as_str()));
        verify_answer(&key, challenge.server, action, &challenge.nonce, &signature).unwrap();

        let signed =
            [&challenge.server.0[..], &second::short(action.as_str()), &challenge.nonce].concat();
        assert!(second::signed(&key, "sign-in", &signed, &signature.0));
    }
    let id = blake3::derive_key("tidings/1/server-id", &token_key);
    assert_eq!(id.to_vec(), challenge.server.0);
    let asked =
        [&challenge.server.0[..], &challenge.account.0, &challenge.device.0, &challenge.nonce]
            .concat();
    let signature = bytes(vector, "challenge_signature");
    assert!(second::signed(&token_key, "challenge", &asked, &signature));
}
