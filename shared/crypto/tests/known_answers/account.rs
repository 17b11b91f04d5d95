//! Vectors of the device chain, with each kind of entry, and of epoch secrets in transit.

use serde_json::{Value, json};
use tidings_crypto::*;
use tidings_proof::manifest::AppManifestHead;
use tidings_proof::*;
use tidings_wire::{Epoch, Hash, Incarnation, ManifestNumber};

use super::{array, bytes, number, text};
use crate::second;
use crate::support::*;

/// A chain with an entry of each kind, the newest epoch last.
pub fn make_chain() -> Value {
    let rng = &mut SeedRng::new("vector: chain");
    let mut account = Account::new(rng);
    let (second, paper) = (DeviceKeys::generate(rng), PaperKey::generate(rng).device_keys());
    account.link(&second, rng);
    account.link(&paper, rng);
    let (keys, id) = (&account.keys, second.id());
    let named =
        entries::name_device(keys, &account.chain, &account.ring, id, "Laptop", rng).unwrap();
    account.take(&named);
    let rotated = entries::rotate(&account.keys, &account.chain, &account.ring, rng).unwrap();
    account.take(&rotated);
    let floored = entries::set_floor(&account.keys, &account.chain, Floor::FIRST).unwrap();
    account.take(&floored);
    let cut = AppManifestHead {
        app: app(),
        replica: Replica { device: id, incarnation: Incarnation([0x33; 8]) },
        n: ManifestNumber(12),
        hash: Hash([0xd1; 32]),
    };
    let revoked = entries::revoke_devices(
        &account.keys,
        &account.chain,
        &account.ring,
        [id].into(),
        [cut].into(),
        rng,
    );
    account.take(&revoked.unwrap());
    let kinds =
        ["genesis", "add_device", "add_device", "name", "rotate", "set_floor", "revoke_devices"];
    let listed: Vec<Value> = account
        .entries
        .iter()
        .zip(kinds)
        .map(|(entry, kind)| {
            let hash = entry.entry.hash().to_string();
            json!({ "kind": kind, "entry": hex(entry.encode()), "hash": hash })
        })
        .collect();
    json!({
        "account": account.chain.account().to_string(),
        "entries": listed,
        "devices": [
            { "id": account.keys.id().to_string(), "kind": "computer", "active": true },
            { "id": id.to_string(), "kind": "computer", "active": false, "name": "Laptop" },
            { "id": paper.id().to_string(), "kind": "paper", "active": true },
        ],
        "keyring": hex(&*account.ring.export()),
        "newest_epoch": 2,
    })
}

pub fn open_chain(vector: &Value) {
    let listed = vector["entries"].as_array().unwrap();
    let entries: Vec<SignedEntry> =
        listed.iter().map(|entry| SignedEntry::decode(&bytes(entry, "entry")).unwrap()).collect();
    let chain = Chain::fold(text(vector, "account").parse().unwrap(), &entries).unwrap();
    let ring = Keyring::import(&bytes(vector, "keyring")).unwrap();
    for (entry, known) in entries.iter().zip(listed) {
        let index = entry.entry.index;
        assert_eq!(chain.hash_at(index).unwrap().to_string(), text(known, "hash"));
        let kind = match entry.entry.body {
            EntryBody::Genesis { .. } => "genesis",
            EntryBody::AddDevice { .. } => "add_device",
            EntryBody::RevokeDevices { .. } => "revoke_devices",
            EntryBody::Rotate { .. } => "rotate",
            EntryBody::Name { .. } => "name",
            EntryBody::SetFloor(_) => "set_floor",
        };
        assert_eq!(kind, text(known, "kind"));
    }
    for known in vector["devices"].as_array().unwrap() {
        let id = text(known, "id").parse().unwrap();
        let device = chain.device(id).unwrap();
        assert_eq!(device.is_active(), known["active"].as_bool().unwrap());
        let kind = match device.public.kind {
            DeviceKind::Computer => "computer",
            DeviceKind::Paper => "paper",
        };
        assert_eq!(kind, text(known, "kind"));
        let name = device.name.as_ref().and_then(|name| entries::open_name(&ring, id, name));
        assert_eq!(name.as_deref(), known["name"].as_str());
    }
    assert_eq!(chain.newest_epoch(), Epoch(number(vector, "newest_epoch") as u32));

    // The second client: each hash is that of label and entry, and names the one before.
    let mut prev = vec![0; 32];
    for known in listed {
        let entry = bytes(known, "entry");
        let signed = &entry[..entry.len() - 64];
        assert_eq!(signed[25..57], prev);
        prev =
            blake3::hash(&[second::label("entry").as_slice(), signed].concat()).as_bytes().to_vec();
        assert_eq!(hex(&prev), text(known, "hash"));
    }
    assert_eq!(text(&listed[0], "hash")[..32], *text(vector, "account"));
    // The name: epoch, nonce, ciphertext under the key of that epoch.
    let named = bytes(&listed[3], "entry");
    let sealed = &named[1 + 16 + 8 + 32 + 1 + 4 + 16 + 4..named.len() - 64 - 16];
    let key = second::derive(&bytes(vector, "keyring")[25..57], "name-key", &[]);
    let device = bytes(&vector["devices"][1], "id");
    let data = [second::label("name-data"), bytes(vector, "account"), device].concat();
    assert_eq!(sealed[..4], [0; 4]);
    assert_eq!(second::open(&key, &data, &sealed[4..]).unwrap(), b"Laptop");
}

pub fn make_wrap() -> Value {
    let rng = &mut SeedRng::new("vector: wrap");
    let keys = DeviceKeys::generate(rng);
    let new = entries::genesis(&keys, rng).unwrap();
    let (epoch, secret) = new.secret.unwrap();
    let mut ring = Keyring::new(new.chain.account());
    ring.insert(&new.chain, epoch, secret.clone()).unwrap();
    json!({
        "genesis": hex(new.entry.encode()),
        "account": new.chain.account().to_string(),
        "device_keys": hex(&*keys.export()),
        "device_id": keys.id().to_string(),
        "epoch": 0,
        "commit": hex(secret.commit()),
        "wrap": hex(new.wraps[0].encode()),
        "epoch_secret": hex(&ring.export()[25..]),
    })
}

pub fn open_wrap(vector: &Value) {
    let genesis = SignedEntry::decode(&bytes(vector, "genesis")).unwrap();
    let chain = Chain::fold(text(vector, "account").parse().unwrap(), [&genesis]).unwrap();
    let keys = DeviceKeys::import(&bytes(vector, "device_keys")).unwrap();
    let encoded = bytes(vector, "wrap");
    let wrap = Wrap::decode(&encoded).unwrap();
    let mut ring = Keyring::new(chain.account());
    ring.accept_wrap(&chain, &keys, &wrap).unwrap();
    assert_eq!(ring.export()[25..], bytes(vector, "epoch_secret"));

    let data = [
        second::label("wrap"),
        bytes(vector, "account"),
        (number(vector, "epoch") as u32).to_be_bytes().to_vec(),
        bytes(vector, "device_id"),
        bytes(vector, "commit"),
    ]
    .concat();
    let (enc, sealed) = encoded[21..].split_at(1120);
    let seed = &bytes(vector, "device_keys")[34..];
    let secret = second::hpke_open(seed, enc, &second::label("wrap"), &data, sealed);
    assert_eq!(secret, bytes(vector, "epoch_secret"));
}

pub fn make_earlier() -> Value {
    let rng = &mut SeedRng::new("vector: earlier");
    let mut account = Account::new(rng);
    let new = entries::rotate(&account.keys, &account.chain, &account.ring, rng).unwrap();
    account.take(&new);
    let ring = account.ring.export();
    let sealed = new.earlier.unwrap();
    json!({
        "account": account.chain.account().to_string(),
        "entries": account.entries.iter().map(|entry| hex(entry.encode())).collect::<Vec<_>>(),
        "epoch": 1,
        "epoch_secret": hex(&ring[61..]),
        "seals": 0,
        "sealed_secret": hex(&ring[25..57]),
        "earlier": hex(sealed.encode()),
        "hash": sealed.hash().to_string(),
    })
}

pub fn open_earlier(vector: &Value) {
    let entries: Vec<SignedEntry> = vector["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| SignedEntry::decode(&unhex(entry.as_str().unwrap())).unwrap())
        .collect();
    let chain = Chain::fold(text(vector, "account").parse().unwrap(), &entries).unwrap();
    let encoded = bytes(vector, "earlier");
    let sealed = SealedEarlier::decode(&encoded).unwrap();
    assert_eq!(sealed.hash().to_string(), text(vector, "hash"));
    let mut ring = Keyring::new(chain.account());
    let secret = array(vector, "epoch_secret");
    ring.insert(&chain, Epoch(1), EpochSecret::from_bytes(secret)).unwrap();
    ring.accept_earlier(&chain, &sealed).unwrap();
    assert_eq!(ring.export()[25..57], bytes(vector, "sealed_secret"));

    let data = [
        second::label("earlier-data"),
        bytes(vector, "account"),
        (number(vector, "epoch") as u32).to_be_bytes().to_vec(),
        (number(vector, "seals") as u32).to_be_bytes().to_vec(),
    ]
    .concat();
    let key = second::derive(&secret, "earlier-key", &[]);
    let opened = second::open(&key, &data, &encoded[9..]).unwrap();
    assert_eq!(opened, bytes(vector, "sealed_secret"));
    let hash = blake3::hash(&[second::label("earlier-hash"), encoded].concat());
    assert_eq!(hex(hash.as_bytes()), text(vector, "hash"));
}
