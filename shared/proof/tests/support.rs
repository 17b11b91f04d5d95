//! Signers for tests: real Ed25519 keys, wrapping keys that only need to differ.

use std::collections::{BTreeMap, BTreeSet};

use ed25519_dalek::{Signer, SigningKey};
use tidings_proof::*;
use tidings_wire::sync::ChainHead;
use tidings_wire::*;

/// A device that can sign.
#[derive(Clone)]
pub struct Actor {
    key: SigningKey,
    pub public: DevicePublic,
}

impl Actor {
    pub fn new(seed: u8) -> Self {
        Self::of_kind(seed, DeviceKind::Computer)
    }

    pub fn of_kind(seed: u8, kind: DeviceKind) -> Self {
        Self::with_key(SigningKey::from_bytes(&[seed; 32]), kind)
    }

    pub fn with_key(key: SigningKey, kind: DeviceKind) -> Self {
        let signing = key.verifying_key().to_bytes();
        let wrapping = Box::new([signing[0]; DevicePublic::WRAPPING_LEN]);
        let mut public = DevicePublic { kind, signing, wrapping };
        public.wrapping[..32].copy_from_slice(&signing);
        Self { key, public }
    }

    pub fn id(&self) -> DeviceId {
        self.public.id()
    }

    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.key.sign(message).to_bytes())
    }

    pub fn signed(&self, entry: Entry) -> SignedEntry {
        SignedEntry { signature: self.sign(&entry.signed_bytes()), entry }
    }

    pub fn replica(&self) -> Replica {
        Replica { device: self.id(), incarnation: Incarnation([1; 8]) }
    }

    pub fn genesis(&self) -> SignedEntry {
        self.signed(Entry {
            account: AccountId([0; 16]),
            index: ChainIndex(0),
            prev: Hash::ZERO,
            body: EntryBody::Genesis { device: self.public.clone(), commit: [0xc0; 32] },
            signer: self.id(),
        })
    }

    /// The entry that follows `chain` and does `body`.
    pub fn next(&self, chain: &Chain, body: EntryBody) -> SignedEntry {
        self.signed(Entry {
            account: chain.account(),
            index: chain.next_index(),
            prev: chain.head().hash,
            body,
            signer: self.id(),
        })
    }

    pub fn joins(&self, chain: &Chain) -> EntryBody {
        let bytes = self.public.co_signed_bytes(chain.account(), chain.next_index());
        EntryBody::AddDevice { device: self.public.clone(), co_signature: self.sign(&bytes) }
    }

    pub fn blob(&self, chain: &Chain, seq: u64, prev: Hash, body: &[u8]) -> Vec<u8> {
        let header = BlobHeader {
            account: chain.account(),
            lane: Lane { app: app(), replica: self.replica(), tag: TableTag([7; 16]) },
            seq: Seq(seq),
            prev,
            epoch: chain.newest_epoch(),
        };
        let sealed = [&[9; 24], body, &[5; 16]].concat();
        let signed = header.signed_bytes(&tidings_proof::blob::hash_of(&sealed));
        Blob::join(&header, &sealed, &self.sign(&signed))
    }

    pub fn manifest(&self, chain: &Chain, n: u64) -> SignedManifest {
        let manifest = Manifest {
            account: chain.account(),
            app: app(),
            replica: self.replica(),
            n: ManifestNumber(n),
            time_ms: 1_700_000_000_000,
            lanes: BTreeMap::from([
                (TableTag([7; 16]), LaneHead { seq: Seq(3), hash: Hash([3; 32]) }),
                (TableTag([8; 16]), LaneHead { seq: Seq(1), hash: Hash([4; 32]) }),
            ]),
            runs: BTreeSet::from([(TableTag([7; 16]), Hash([1; 32]))]),
            seen: BTreeMap::from([(Actor::new(99).replica(), ManifestNumber(4))]),
            apps: BTreeSet::from([app(), "notes".parse().unwrap()]),
            wants: BTreeSet::from([LaneSeq {
                replica: Actor::new(99).replica(),
                tag: TableTag([8; 16]),
                seq: Seq(2),
            }]),
            chain: chain.head(),
        };
        SignedManifest { signature: self.sign(&manifest.signed_bytes()), manifest }
    }

    pub fn run(&self, chain: &Chain) -> SignedRun {
        let replica = self.replica();
        let cover = |to, hash| Cover { prev: Hash::ZERO, to: Seq(to), hash: Hash([hash; 32]) };
        let statement = RunStatement {
            kind: RunKind::Replace,
            account: chain.account(),
            app: app(),
            author: replica,
            tag: TableTag([7; 16]),
            covers: BTreeMap::from([
                ((replica, Seq(1)), cover(3, 1)),
                ((replica, Seq(4)), cover(9, 2)),
            ]),
            purged: BTreeMap::from([(replica, Seq(2))]),
            parts: vec![Part { hash: Hash([6; 32]), size: 4_096 }],
            epoch: chain.newest_epoch(),
            chain: chain.head(),
        };
        SignedRun { signature: self.sign(&statement.signed_bytes()), statement }
    }
}

pub fn app() -> AppId {
    "movies".parse().unwrap()
}

pub fn new_epoch(chain: &Chain) -> NewEpoch {
    NewEpoch {
        epoch: Epoch(chain.newest_epoch().0 + 1),
        commit: [0xc1; 32],
        seals: chain.newest_epoch(),
        earlier: Hash([0xea; 32]),
    }
}

/// A chain of two computers, `one` the first.
pub fn two(one: &Actor, other: &Actor) -> Chain {
    let mut chain = Chain::begin(&one.genesis()).unwrap();
    let entry = one.next(&chain, other.joins(&chain));
    chain.extend(&entry).unwrap();
    chain
}

pub fn revocation(chain: &Chain, devices: &[DeviceId], cuts: &[Cut]) -> EntryBody {
    EntryBody::RevokeDevices {
        devices: devices.iter().copied().collect(),
        cuts: cuts.iter().cloned().collect(),
        epoch: new_epoch(chain),
    }
}

pub fn head(index: u64, hash: u8) -> ChainHead {
    ChainHead { index: ChainIndex(index), hash: Hash([hash; 32]) }
}
