//! Vectors of pairing: one whole conversation over a key that is given, so that every message can
//! be made again from the file alone, and one over SPAKE2 with seeded randomness.

use serde_json::{Value, json};
use tidings_crypto::pairing::*;
use tidings_crypto::random::CryptoRng;
use tidings_crypto::*;
use tidings_proof::manifest::AppManifestHead;
use tidings_proof::*;
use tidings_wire::sync::ChainHead;
use tidings_wire::{AccountId, ChainIndex, Hash, Incarnation, ManifestNumber, Nameplate, ServerId};
use zeroize::Zeroizing;

use super::{bytes, number, text};
use crate::second;
use crate::support::*;

const CODE: &str = "4821-amused-violin-tunnel";
const SECRET: [u8; 32] = [0x5a; 32];

/// A key exchange whose outcome is known, to show what stands around it.
struct Given;

impl Pake for Given {
    fn start(role: Role, _: &[u8], _: &PakeIdentities, _: &mut impl CryptoRng) -> (Self, Vec<u8>) {
        let byte = match role {
            Role::New => 0x4e,
            Role::Old => 0x4f,
        };
        (Self, vec![byte; 33])
    }

    fn finish(self, _: &[u8]) -> Result<Zeroizing<Vec<u8>>, PakeError> {
        Ok(Zeroizing::new(SECRET.to_vec()))
    }
}

fn head() -> AppManifestHead {
    AppManifestHead {
        app: app(),
        replica: Replica {
            device: tidings_wire::DeviceId([0xde; 16]),
            incarnation: Incarnation([0x44; 8]),
        },
        n: ManifestNumber(6),
        hash: Hash([0xe6; 32]),
    }
}

fn chain_head(index: u64) -> ChainHead {
    ChainHead { index: ChainIndex(index), hash: Hash([0xce; 32]) }
}

/// One conversation with an offer, an answer and a link: the messages of both sides.
fn converse<P: Pake>(seed: &str) -> Value {
    let rng = &mut SeedRng::new(seed);
    let keys = DeviceKeys::generate(rng);
    let code: PairingCode = CODE.parse().unwrap();
    let account = AccountId([0xac; 16]);
    let (mut joiner, new_0) = Joiner::<P>::start_with(&code, server(), rng);
    let (mut inviter, old_0) = Inviter::start_with::<P>(&code, server(), &new_0, rng).unwrap();
    let JoinerEvent::Confirmed(new_1) = joiner.receive(&old_0).unwrap() else { panic!() };
    assert_eq!(inviter.receive(&new_1).unwrap(), InviterEvent::Confirmed);
    let old_1 = inviter.offer(account, chain_head(4), &[head()], rng).unwrap().remove(0);
    joiner.receive(&old_1).unwrap();
    let new_2 = joiner.answer(&keys, "Desk", rng).unwrap();
    inviter.receive(&new_2).unwrap();
    let old_2 = inviter.linked(chain_head(5), rng).unwrap();
    assert_eq!(
        joiner.receive(&old_2).unwrap(),
        JoinerEvent::Linked(Linked { chain: chain_head(5) })
    );
    json!({
        "code": CODE,
        "server_id": server().to_string(),
        "nameplate": 4821,
        "account": account.to_string(),
        "device_keys": hex(&*keys.export()),
        "name": "Desk",
        "new": [hex(new_0), hex(new_1), hex(new_2)],
        "old": [hex(old_0), hex(old_1), hex(old_2)],
        "refusal": hex(refusal()),
    })
}

pub fn make() -> Value {
    let mut vector = converse::<Given>("vector: pairing");
    vector["pake_secret"] = hex(SECRET).into();
    vector
}

pub fn make_spake2() -> Value {
    converse::<SpakeEd25519>("vector: pairing, spake2")
}

/// One more than fit into a message of their own.
const HEADS: u64 = 501;

/// A conversation in which the heads fill a message of their own, the chain moves before the first
/// answer is used, and the linked side gives up in the end.
pub fn make_again() -> Value {
    let rng = &mut SeedRng::new("vector: pairing, again");
    let keys = DeviceKeys::generate(rng);
    let code: PairingCode = CODE.parse().unwrap();
    let account = AccountId([0xac; 16]);
    let heads: Vec<AppManifestHead> =
        (0..HEADS).map(|n| AppManifestHead { n: ManifestNumber(n), ..head() }).collect();
    let (mut joiner, new_0) = Joiner::<Given>::start_with(&code, server(), rng);
    let (mut inviter, old_0) = Inviter::start_with::<Given>(&code, server(), &new_0, rng).unwrap();
    let JoinerEvent::Confirmed(new_1) = joiner.receive(&old_0).unwrap() else { panic!() };
    inviter.receive(&new_1).unwrap();
    let mut old = vec![old_0];
    let mut new = vec![new_0, new_1];
    for chain in [chain_head(4), chain_head(5)] {
        let offer = inviter.offer(account, chain, &heads, rng).unwrap();
        for message in &offer {
            joiner.receive(message).unwrap();
        }
        old.extend(offer);
        let answer = joiner.answer(&keys, "Desk", rng).unwrap();
        inviter.receive(&answer).unwrap();
        new.push(answer);
    }
    let stop = inviter.stop(StopReason::TooManyDevices, rng).unwrap();
    let stopped = joiner.receive(&stop).unwrap();
    assert_eq!(stopped, JoinerEvent::Stopped(StopReason::TooManyDevices));
    old.push(stop);
    json!({
        "code": CODE,
        "server_id": server().to_string(),
        "nameplate": 4821,
        "account": account.to_string(),
        "device_keys": hex(&*keys.export()),
        "pake_secret": hex(SECRET),
        "heads": heads.len(),
        "new": new.iter().map(hex).collect::<Vec<_>>(),
        "old": old.iter().map(hex).collect::<Vec<_>>(),
    })
}

/// As [`open_spake2`]; tests/vectors/check.py opens what is in it.
pub fn open_again(vector: &Value) {
    assert_eq!(&make_again(), vector);
}

/// Same seed, same conversation: the only way to look into a PAKE from outside.
pub fn open_spake2(vector: &Value) {
    assert_eq!(&make_spake2(), vector);
}

fn message(vector: &Value, side: &str, index: usize) -> Vec<u8> {
    unhex(vector[side][index].as_str().unwrap())
}

/// The second client: confirmations and sealed messages from the PAKE's key and the protocol.
pub fn open(vector: &Value) {
    let secret = bytes(vector, "pake_secret");
    let server: ServerId = text(vector, "server_id").parse().unwrap();
    let nameplate = number(vector, "nameplate") as u32;
    let identity =
        |role: &str| [&second::label(role)[..], &server.0, &nameplate.to_be_bytes()].concat();
    let identities = PakeIdentities::new(server, Nameplate(nameplate));
    assert_eq!(identities.new, identity("pair-new"));
    assert_eq!(identities.old, identity("pair-old"));
    let (new_0, old_0) = (message(vector, "new", 0), message(vector, "old", 0));
    assert_eq!((&new_0[..2], &old_0[..2]), ([1, 1].as_slice(), [1, 2].as_slice()));
    let long = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let (pake_new, pake_old) = (&new_0[6..], &old_0[6..old_0.len() - 32]);
    let transcript = [
        second::label("pair-transcript"),
        long(&identity("pair-new")),
        long(&identity("pair-old")),
        long(pake_new),
        long(pake_old),
    ]
    .concat();
    let confirmation =
        |purpose: &str| second::mac(&second::derive(&secret, purpose, &[]), &transcript);
    assert_eq!(old_0[old_0.len() - 32..], confirmation("pair-confirm-old"));
    assert_eq!(
        message(vector, "new", 1),
        [&[1, 3][..], &confirmation("pair-confirm-new")].concat()
    );
    let inner = |side: &str, byte: u8, index: usize| {
        let outer = message(vector, side, index);
        assert_eq!(outer[..2], [1, 4]);
        let data =
            [&second::label("pair-message")[..], &[byte], &(index as u32).to_be_bytes()].concat();
        let key = second::derive(&secret, &format!("pair-key-{side}"), &[]);
        second::open(&key, &data, &outer[6..]).unwrap()
    };
    let account = bytes(vector, "account");
    let chain = |index: u64| [&index.to_be_bytes()[..], &[0xce; 32]].concat();
    let heads = [
        &1u32.to_be_bytes()[..],
        &second::short("movies"),
        &[0xde; 16],
        &[0x44; 8],
        &6u64.to_be_bytes(),
        &[0xe6; 32],
    ]
    .concat();
    let offer = [&[2][..], &[0; 4], &account, &server.0, &chain(4), &heads].concat();
    assert_eq!(inner("old", 2, 1), offer);
    let keys = DeviceKeys::import(&bytes(vector, "device_keys")).unwrap();
    let public = keys.public();
    let co_signature = keys.co_sign(AccountId::from_slice(&account).unwrap(), ChainIndex(5));
    let answer = [
        &[3][..],
        &[0; 4],
        &[1],
        &public.signing,
        public.wrapping.as_slice(),
        &long(text(vector, "name").as_bytes()),
        &co_signature.0,
    ]
    .concat();
    assert_eq!(inner("new", 1, 2), answer);
    assert_eq!(inner("old", 2, 2), [&[4][..], &chain(5)].concat());
    assert_eq!(bytes(vector, "refusal"), [1, 5]);
}
