//! A seeded source of randomness, and a small account to test with.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use getrandom::rand_core::{TryCryptoRng, TryRng};
use sha2::{Digest, Sha256};
use tidings_crypto::random::CryptoRng;
use tidings_crypto::{DeviceKeys, Keyring, entries};
use tidings_proof::{BlobHeader, Chain, Lane, Manifest, Replica, SignedEntry};
use tidings_wire::{AppId, Epoch, Hash, Incarnation, ManifestNumber, Seq, ServerId, TableTag};

/// SHA-256 of a seed and a counter: the same bytes for ever.
pub struct SeedRng {
    seed: String,
    counter: u64,
    rest: Vec<u8>,
}

impl SeedRng {
    pub fn new(seed: &str) -> Self {
        Self { seed: seed.to_owned(), counter: 0, rest: Vec::new() }
    }
}

impl TryRng for SeedRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        while self.rest.len() < bytes.len() {
            let block = Sha256::new()
                .chain_update(self.seed.as_bytes())
                .chain_update(self.counter.to_be_bytes())
                .finalize();
            self.rest.extend_from_slice(&block);
            self.counter += 1;
        }
        let later = self.rest.split_off(bytes.len());
        bytes.copy_from_slice(&self.rest);
        self.rest = later;
        Ok(())
    }
}

impl TryCryptoRng for SeedRng {}

/// An account with one computer.
pub struct Account {
    pub keys: DeviceKeys,
    pub chain: Chain,
    pub ring: Keyring,
    pub entries: Vec<SignedEntry>,
}

impl Account {
    pub fn new(rng: &mut impl CryptoRng) -> Self {
        let keys = DeviceKeys::generate(rng);
        let new = entries::genesis(&keys, rng).unwrap();
        let mut ring = Keyring::new(new.chain.account());
        let (epoch, secret) = new.secret.unwrap();
        ring.insert(&new.chain, epoch, secret).unwrap();
        Self { keys, chain: new.chain, ring, entries: vec![new.entry] }
    }

    /// Takes an entry that this account made.
    pub fn take(&mut self, new: &entries::NewEntry) {
        self.chain = new.chain.clone();
        self.entries.push(new.entry.clone());
        if let Some((epoch, secret)) = &new.secret {
            self.ring.insert(&self.chain, *epoch, secret.clone()).unwrap();
        }
    }

    /// Links a device.
    pub fn link(&mut self, device: &DeviceKeys, rng: &mut impl CryptoRng) -> entries::NewEntry {
        let signature = device.co_sign(self.chain.account(), self.chain.next_index());
        let new = entries::add_device(
            &self.keys,
            &self.chain,
            &self.ring,
            device.public(),
            signature,
            rng,
        )
        .unwrap();
        self.take(&new);
        new
    }

    pub fn replica(&self) -> Replica {
        Replica { device: self.keys.id(), incarnation: Incarnation([0x11; 8]) }
    }

    pub fn header(&self, table: &str, seq: u64, prev: Hash) -> BlobHeader {
        BlobHeader {
            account: self.chain.account(),
            lane: Lane { app: app(), replica: self.replica(), tag: self.tag(table) },
            seq: Seq(seq),
            prev,
            epoch: self.chain.newest_epoch(),
        }
    }

    pub fn tag(&self, table: &str) -> TableTag {
        self.ring.tag(&app(), table).unwrap()
    }

    pub fn manifest(&self, n: u64) -> Manifest {
        Manifest {
            account: self.chain.account(),
            app: app(),
            replica: self.replica(),
            n: ManifestNumber(n),
            time_ms: 1_800_000_000_000,
            lanes: BTreeMap::new(),
            runs: BTreeSet::new(),
            seen: BTreeMap::new(),
            apps: BTreeSet::from([app()]),
            wants: BTreeSet::new(),
            chain: self.chain.head(),
        }
    }
}

pub fn app() -> AppId {
    "movies".parse().unwrap()
}

pub fn server() -> ServerId {
    tidings_proof::server_id(&[0x5e; 32])
}

pub fn epoch(number: u32) -> Epoch {
    Epoch(number)
}

pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "odd hexadecimal");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}
