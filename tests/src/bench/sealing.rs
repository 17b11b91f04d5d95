//! Sealing and opening: what the cipher takes of it.

use std::hint::black_box;
use std::time::Instant;

use chacha20poly1305::aead::{AeadInOut as _, KeyInit as _};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use ed25519_dalek::{Signer as _, SigningKey};
use tidings_crypto::{DeviceKeys, Keyring, entries, open_blob, random, seal_blob};
use tidings_proof::{Blob, BlobHeader, Chain, Lane, Replica};
use tidings_wire::{AppId, Hash, Incarnation, Seq};

use super::{Aim, Benchmark, Figure, Plan, Rounds};

const PRIMITIVES: &str = "XChaCha20-Poly1305 and Ed25519 alone over the same bytes";

/// A blob of 512 bytes.
pub(super) const SEALING: Benchmark = Benchmark {
    name: "sealing",
    about: "A body that makes a blob of 512 B, sealed and signed; verified and opened again.",
    figures: &[
        Figure {
            name: "seal",
            what: "sealing and signing one blob",
            unit: "µs",
            limit: PRIMITIVES,
            aim: Aim::None,
            unmet: "",
        },
        Figure {
            name: "open",
            what: "verifying and opening one blob",
            unit: "µs",
            limit: PRIMITIVES,
            aim: Aim::None,
            unmet: "",
        },
        Figure {
            name: "cipher",
            what: "XChaCha20-Poly1305 over the bytes of one blob",
            unit: "µs",
            limit: "",
            aim: Aim::None,
            unmet: "",
        },
        Figure {
            name: "signature",
            what: "verifying one Ed25519 signature",
            unit: "µs",
            limit: "",
            aim: Aim::None,
            unmet: "",
        },
    ],
    run: |plan| measure(*plan),
};

fn measure(plan: Plan) -> Rounds {
    let scene = Scene::new();
    let count = plan.pick(5_000, 50);
    let mut rounds = Rounds::default();
    for _ in 0..plan.rounds() {
        let mut buffer = vec![5; scene.sealed];
        let cipher = XChaCha20Poly1305::new(&[9; 32].into());
        let nonce = XNonce::from([3; 24]);
        let cipher = each(count, || {
            black_box(cipher.encrypt_inout_detached(
                &nonce,
                &[1; 32],
                buffer.as_mut_slice().into(),
            ))
            .expect("a short plaintext");
        });
        let key = SigningKey::from_bytes(&[7; 32]);
        let public = key.verifying_key();
        let message = vec![1; scene.body.len()];
        let signature = key.sign(&message);
        let sign = each(count, || _ = black_box(key.sign(black_box(&message))));
        let verify = each(count, || {
            black_box(public.verify_strict(&message, &signature)).expect("our signature");
        });
        let sealed = scene.seal();
        rounds.add("seal", each(count, || drop(black_box(scene.seal()))), cipher + sign);
        rounds.add("open", each(count, || _ = black_box(scene.open(&sealed))), cipher + verify);
        rounds.add("cipher", cipher, None);
        rounds.add("signature", verify, None);
    }
    rounds
}

/// A device, and a body that it seals.
struct Scene {
    keys: DeviceKeys,
    chain: Chain,
    ring: Keyring,
    header: BlobHeader,
    body: Vec<u8>,
    /// Bytes that the cipher goes over.
    sealed: usize,
}

impl Scene {
    fn new() -> Self {
        let rng = &mut random::system();
        let keys = DeviceKeys::generate(rng);
        let genesis = entries::genesis(&keys, rng).expect("a genesis");
        let mut ring = Keyring::new(genesis.chain.account());
        let (epoch, secret) = genesis.secret.expect("the secret of epoch 0");
        ring.insert(&genesis.chain, epoch, secret).expect("its own secret");
        let app: AppId = "rows".parse().expect("an app");
        let replica = Replica { device: keys.id(), incarnation: Incarnation([1; 8]) };
        let tag = ring.tag(&app, "rows").expect("the secret of epoch 0");
        let header = BlobHeader {
            account: genesis.chain.account(),
            lane: Lane { app, replica, tag },
            seq: Seq(1),
            prev: Hash::ZERO,
            epoch,
        };
        let chain = genesis.chain;
        let mut scene = Self { keys, chain, ring, header, body: Vec::new(), sealed: 0 };
        // Padding makes sizes go in steps.
        while scene.seal().len() <= BLOB {
            scene.body.push(0);
        }
        scene.body.pop();
        let sealed = scene.seal();
        scene.sealed = Blob::parse(&sealed)
            .expect("a blob")
            .verify(&scene.chain)
            .map(|blob| blob.sealed().len())
            .expect("our blob");
        scene
    }

    fn seal(&self) -> Vec<u8> {
        let rng = &mut random::system();
        let sealed = seal_blob(&self.keys, &self.ring, &self.header, &self.body, rng);
        sealed.expect("a sealed blob").bytes
    }

    fn open(&self, sealed: &[u8]) -> usize {
        let blob = Blob::parse(sealed).expect("a blob");
        let verified = blob.verify(&self.chain).expect("our blob");
        open_blob(&self.ring, &verified).expect("our blob").len()
    }
}

/// Bytes of a blob.
const BLOB: usize = 512;

/// Microseconds of one of many.
fn each(count: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        work();
    }
    start.elapsed().as_secs_f64() * 1e6 / count as f64
}
