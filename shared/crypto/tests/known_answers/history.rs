//! Vectors of an account with a history: epochs walked back, a computer that was unlinked.

use serde_json::{Value, json};
use tidings_crypto::blob::SealedBlob;
use tidings_crypto::*;
use tidings_proof::manifest::AppManifestHead;
use tidings_proof::*;
use tidings_wire::sync::ManifestMark;
use tidings_wire::{AccountId, Epoch, Hash, Incarnation, ManifestNumber, Seq};

use super::{bytes, text};
use crate::support::*;

fn listed<T>(items: &[T], encode: impl Fn(&T) -> Vec<u8>) -> Vec<String> {
    items.iter().map(|item| hex(encode(item))).collect()
}

fn unlisted(vector: &Value, field: &str) -> Vec<Vec<u8>> {
    let items = vector[field].as_array().unwrap();
    items.iter().map(|item| unhex(item.as_str().unwrap())).collect()
}

fn folded(vector: &Value) -> Chain {
    let entries: Vec<SignedEntry> = unlisted(vector, "entries")
        .iter()
        .map(|entry| SignedEntry::decode(entry).unwrap())
        .collect();
    Chain::fold(text(vector, "account").parse().unwrap(), &entries).unwrap()
}

/// A device that is linked in epoch 3. One rotation had lost the secret before it and sealed an
/// older one, so that epoch 2 opens from nowhere.
pub fn make_walk_back() -> Value {
    let rng = &mut SeedRng::new("vector: walk back");
    let mut account = Account::new(rng);
    let first_ring = account.ring.clone();
    let mut earlier = Vec::new();
    let rotate = |account: &mut Account, ring: &Keyring, rng: &mut SeedRng| {
        let new = entries::rotate(&account.keys, &account.chain, ring, rng).unwrap();
        account.take(&new);
        new.earlier.unwrap()
    };
    let ring = account.ring.clone();
    earlier.push(rotate(&mut account, &ring, rng));
    let without_second = account.ring.clone();
    earlier.push(rotate(&mut account, &first_ring, rng));
    earlier.push(rotate(&mut account, &without_second, rng));
    let new_device = DeviceKeys::generate(rng);
    let wrap = account.link(&new_device, rng).wraps.remove(0);
    let mut held = Keyring::new(account.chain.account());
    held.accept_wrap(&account.chain, &new_device, &wrap).unwrap();
    held.accept_earlier(&account.chain, &earlier[2]).unwrap();
    held.accept_earlier(&account.chain, &earlier[0]).unwrap();
    json!({
        "account": account.chain.account().to_string(),
        "entries": listed(&account.entries, SignedEntry::encode),
        "device_keys": hex(&*new_device.export()),
        "wrap": hex(wrap.encode()),
        "earlier": listed(&earlier, SealedEarlier::encode),
        "keyring": hex(&*held.export()),
        "epochs": [0, 1, 3],
    })
}

pub fn open_walk_back(vector: &Value) {
    let chain = folded(vector);
    let keys = DeviceKeys::import(&bytes(vector, "device_keys")).unwrap();
    let mut ring = Keyring::new(chain.account());
    ring.accept_wrap(&chain, &keys, &Wrap::decode(&bytes(vector, "wrap")).unwrap()).unwrap();
    for sealed in unlisted(vector, "earlier").iter().rev() {
        let sealed = SealedEarlier::decode(sealed).unwrap();
        // Epoch 2 is not held, so that what is sealed under it stays shut.
        assert_eq!(ring.accept_earlier(&chain, &sealed).is_ok(), sealed.epoch != Epoch(2));
    }
    assert_eq!(ring.epochs().collect::<Vec<_>>(), [0, 1, 3].map(Epoch));
    assert_eq!(ring.export().to_vec(), bytes(vector, "keyring"));
}

/// What a computer wrote that was unlinked later: three blobs, of which the cut names the second.
pub fn make_cuts() -> Value {
    let rng = &mut SeedRng::new("vector: cuts");
    let mut account = Account::new(rng);
    let lost = DeviceKeys::generate(rng);
    account.link(&lost, rng);
    let author = Author { replica: replica_of(&lost), account: &account, keys: &lost };
    let blobs = author.blobs(3, rng);
    let runs = [Seq(1), Seq(2)].map(|to| author.run(&blobs, to));
    let manifests: Vec<SignedManifest> = [(4, 1), (7, 2), (9, 3)]
        .map(|(n, seq)| author.manifest(n, &blobs[seq - 1], &runs[0]))
        .into();
    let elsewhere = Replica { incarnation: Incarnation([0x99; 8]), ..author.replica };
    let elsewhere = Author { replica: elsewhere, ..author };
    let uncut = elsewhere.manifest(1, &elsewhere.blobs(1, rng)[0], &runs[0]);
    let at_the_cut = &manifests[1].manifest;
    let cut = AppManifestHead {
        app: app(),
        replica: replica_of(&lost),
        n: at_the_cut.n,
        hash: at_the_cut.hash(),
    };
    let mut rival = at_the_cut.clone();
    rival.time_ms += 1;
    let rival = sign_manifest(&lost, rival).unwrap();
    let (chain, ring) = (&account.chain, &account.ring);
    let revoked =
        entries::revoke_devices(&account.keys, chain, ring, [lost.id()].into(), [cut].into(), rng);
    account.take(&revoked.unwrap());
    let case = |bytes: Vec<u8>, counts: bool, why: &str| json!({ "bytes": hex(bytes), "counts": counts, "why": why });
    json!({
        "account": account.chain.account().to_string(),
        "entries": listed(&account.entries, SignedEntry::encode),
        "keyring": hex(&*account.ring.export()),
        "table": "films",
        "manifests": [
            case(manifests[0].encode(), true, "before the cut"),
            case(manifests[1].encode(), true, "the cut"),
            case(rival.encode(), false, "the cut's number and another hash"),
            case(manifests[2].encode(), false, "after the cut"),
            case(uncut.encode(), false, "of a replica without a cut"),
        ],
        "blobs": [
            case(blobs[0].bytes.clone(), true, "before the cut's lane head"),
            case(blobs[1].bytes.clone(), true, "the cut's lane head"),
            case(blobs[2].bytes.clone(), false, "after the cut's lane head"),
        ],
        "runs": [
            case(runs[0].encode(), true, "the cut's manifest lists it"),
            case(runs[1].encode(), false, "no manifest lists it"),
        ],
    })
}

fn replica_of(keys: &DeviceKeys) -> Replica {
    Replica { device: keys.id(), incarnation: Incarnation([0x22; 8]) }
}

/// A device that writes into the table `films`.
#[derive(Clone, Copy)]
struct Author<'a> {
    replica: Replica,
    account: &'a Account,
    keys: &'a DeviceKeys,
}

impl Author<'_> {
    fn blobs(&self, count: u64, rng: &mut SeedRng) -> Vec<SealedBlob> {
        let mut prev = Hash::ZERO;
        let blob = |seq| {
            let mut header = self.account.header("films", seq, prev);
            header.lane.replica = self.replica;
            let body = format!("\0blob {seq}");
            let ring = &self.account.ring;
            let sealed = seal_blob(self.keys, ring, &header, body.as_bytes(), rng).unwrap();
            prev = sealed.hash;
            sealed
        };
        (1..=count).map(blob).collect()
    }

    fn run(&self, blobs: &[SealedBlob], to: Seq) -> SignedRun {
        let hash = blobs[to.0 as usize - 1].hash;
        let statement = RunStatement {
            kind: RunKind::Fill,
            account: self.account.chain.account(),
            app: app(),
            author: self.replica,
            tag: self.account.tag("films"),
            covers: [((self.replica, Seq(1)), Cover { prev: Hash::ZERO, to, hash })].into(),
            purged: [].into(),
            parts: vec![],
            epoch: epoch(0),
            chain: self.account.chain.head(),
        };
        sign_run(self.keys, statement).unwrap()
    }

    fn manifest(&self, n: u64, head: &SealedBlob, run: &SignedRun) -> SignedManifest {
        let header = Blob::parse(&head.bytes).unwrap().header().clone();
        let mut manifest = self.account.manifest(n);
        manifest.replica = self.replica;
        let lane_head = LaneHead { seq: header.seq, hash: head.hash };
        manifest.lanes = [(header.lane.tag, lane_head)].into();
        manifest.runs = [(header.lane.tag, run.statement.hash())].into();
        sign_manifest(self.keys, manifest).unwrap()
    }
}

pub fn open_cuts(vector: &Value) {
    let chain = folded(vector);
    let account: AccountId = text(vector, "account").parse().unwrap();
    let cases = |field: &str| -> Vec<(Vec<u8>, bool)> {
        let cases = vector[field].as_array().unwrap();
        cases.iter().map(|case| (bytes(case, "bytes"), case["counts"].as_bool().unwrap())).collect()
    };
    let manifests = cases("manifests");
    for (bytes, counts) in &manifests {
        let manifest = SignedManifest::decode(bytes).unwrap();
        assert_eq!(manifest.verify(&chain).is_ok(), *counts);
    }
    let cut = SignedManifest::decode(&manifests[1].0).unwrap().verify(&chain).unwrap();
    let mark = ManifestMark { n: ManifestNumber(7), hash: cut.hash() };
    assert_eq!(cut.standing(), Standing::Cut(mark));
    let ring = Keyring::import(&bytes(vector, "keyring")).unwrap();
    for (bytes, counts) in cases("blobs") {
        let blob = Blob::parse(&bytes).unwrap().verify(&chain).unwrap();
        assert_eq!(*blob.standing(), Standing::Cut(mark));
        let head = cut.manifest().lanes[&blob.header().lane.tag];
        assert_eq!(blob.header().seq <= head.seq, counts);
        assert_eq!(blob.header().account, account);
        open_blob(&ring, &blob).unwrap();
    }
    for (bytes, counts) in cases("runs") {
        let run = SignedRun::decode(&bytes).unwrap().verify(&chain).unwrap();
        let named = (run.statement().tag, run.hash());
        assert_eq!(cut.manifest().runs.contains(&named), counts);
    }
}
