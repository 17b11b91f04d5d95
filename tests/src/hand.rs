//! A device made by hand: keys, sign-in, sealing and pushing without a daemon, for calls that no
//! daemon would make, at moments that no daemon would choose.

mod joining;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use minicbor::bytes::ByteVec;
use serde_json::Value;
use tidings_client::remote::{self, ClientError, PullFilter, SyncClient};
use tidings_crypto::{DeviceKeys, Keyring, entries, random, seal_blob, sign_manifest};
use tidings_proof::signin::Challenge;
use tidings_proof::{BlobHeader, Chain, Lane, LaneHead, Manifest, Replica, Signature};
use tidings_tables::{Body, Input, Row, RowId, TableName, ops};
use tidings_wire::account::{AppendChainRequest, CreateAccountRequest};
use tidings_wire::auth::{Action, ChallengeRequest, TokenRequest};
use tidings_wire::sync::{PullResponse, PushRequest, PushResponse};
use tidings_wire::{AccountId, AppId, Hash, Incarnation, ManifestNumber, Seq, Stamp, TableTag};

use crate::server::client;

/// A device of an account, with a replica of its own.
#[derive(Debug, Clone)]
pub struct Hand {
    client: SyncClient,
    token: String,
    keys: Arc<DeviceKeys>,
    chain: Chain,
    ring: Keyring,
    incarnation: Incarnation,
    lanes: BTreeMap<AppId, BTreeMap<TableTag, LaneHead>>,
    /// The last manifest's number, and the last stamp's counter.
    numbers: u64,
}

impl Hand {
    /// Makes an account with this device as its first; the server has open registration.
    ///
    /// # Panics
    /// The server refuses.
    pub async fn create(url: &str) -> Self {
        let rng = &mut random::system();
        let keys = Arc::new(DeviceKeys::generate(rng));
        let genesis = entries::genesis(&keys, rng).expect("a genesis");
        let mut ring = Keyring::new(genesis.chain.account());
        let (epoch, secret) = genesis.secret.expect("the secret of epoch 0");
        ring.insert(&genesis.chain, epoch, secret).expect("its own secret");
        let client = client(url);
        let request = CreateAccountRequest {
            genesis: encode(&genesis.entry.encode()),
            wraps: genesis.wraps.iter().map(|wrap| encode(&wrap.encode())).collect(),
            invite: None,
        };
        client.create_account(&request).await.expect("an account");
        Self::signed_in(client, keys, genesis.chain, ring).await
    }

    /// The same device after it signed in, with a fresh replica.
    async fn signed_in(
        client: SyncClient,
        keys: Arc<DeviceKeys>,
        chain: Chain,
        ring: Keyring,
    ) -> Self {
        let token = sign_in(&client, &keys, &chain).await;
        let client = client.with_token(&token);
        let (lanes, incarnation) = (BTreeMap::new(), fresh_incarnation());
        Self { client, token, keys, chain, ring, incarnation, lanes, numbers: 0 }
    }

    /// Another replica of the same device: its own lanes, the same keys.
    #[must_use]
    pub fn twin(&self) -> Self {
        let mut twin = self.clone();
        twin.incarnation = fresh_incarnation();
        twin.lanes.clear();
        twin.numbers = 0;
        twin
    }

    /// Another device, linked to the account by this one.
    ///
    /// # Panics
    /// The server refuses.
    pub async fn link(&mut self) -> Self {
        let rng = &mut random::system();
        let keys = Arc::new(DeviceKeys::generate(rng));
        let signature = keys.co_sign(self.chain.account(), self.chain.next_index());
        let (own, chain, ring) = (&self.keys, &self.chain, &self.ring);
        let new = entries::add_device(own, chain, ring, keys.public(), signature, rng);
        let new = new.expect("an entry");
        let request = AppendChainRequest {
            account_id: chain.account(),
            entry: encode(&new.entry.encode()),
            wraps: new.wraps.iter().map(|wrap| encode(&wrap.encode())).collect(),
            earlier: None,
        };
        self.client.append_chain(&request).await.expect("a linked device");
        self.chain = new.chain.clone();
        Self::signed_in(self.client.clone(), keys, new.chain, self.ring.clone()).await
    }

    /// The account.
    pub fn account(&self) -> AccountId {
        self.chain.account()
    }

    /// The token, for calls that no client makes.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The signed-in client.
    pub fn client(&self) -> &SyncClient {
        &self.client
    }

    /// This replica, as a pull names it.
    pub fn replica(&self, app: &AppId) -> remote::Replica {
        remote::Replica { app: app.clone(), device: self.keys.id(), incarnation: self.incarnation }
    }

    /// The tag of a table.
    ///
    /// # Panics
    /// Never, with epoch 0.
    pub fn tag(&self, app: &AppId, table: &str) -> TableTag {
        self.ring.tag(app, table).expect("the secret of epoch 0")
    }

    /// A body of rows, as a device writes it: each row is put whole, stamped now.
    ///
    /// # Panics
    /// They are no rows.
    pub fn body(&mut self, table: &str, rows: &[(&str, Value)]) -> Vec<u8> {
        let mut deltas = Vec::new();
        for (id, row) in rows {
            self.numbers += 1;
            let counter = u16::try_from(self.numbers % (1 << 16)).expect("16 bits");
            let stamp = Stamp::new(now_ms(), counter, self.incarnation);
            let value = tidings_tables::json::parse(row.to_string().as_bytes()).expect("JSON");
            let input = Input::new(value).expect("a row");
            let written = ops::put(&Row::default(), input.columns, stamp).expect("a row");
            deltas.push((RowId::new(*id).expect("an id"), written.delta));
        }
        deltas.sort_by(|(a, _), (b, _)| a.cmp(b));
        Body { table: TableName::new(table).expect("a table"), deltas }.encode()
    }

    /// Seals packed bodies as the next blobs of their lanes, with the manifest over them. The
    /// lanes move on: the request has to be pushed.
    ///
    /// # Panics
    /// A body is too large to be sealed.
    pub fn seal(&mut self, app: &AppId, bodies: &[(&str, Vec<u8>)]) -> PushRequest {
        let replica = Replica { device: self.keys.id(), incarnation: self.incarnation };
        let mut blobs = Vec::new();
        for (table, packed) in bodies {
            let tag = self.tag(app, table);
            let lanes = self.lanes.entry(app.clone()).or_default();
            let head = lanes.get(&tag).copied();
            let (seq, prev) = head.map_or((0, Hash::ZERO), |head| (head.seq.0, head.hash));
            let header = BlobHeader {
                account: self.chain.account(),
                lane: Lane { app: app.clone(), replica, tag },
                seq: Seq(seq + 1),
                prev,
                epoch: self.chain.newest_epoch(),
            };
            let sealed = seal_blob(&self.keys, &self.ring, &header, packed, &mut random::system());
            let sealed = sealed.expect("a sealed blob");
            lanes.insert(tag, LaneHead { seq: header.seq, hash: sealed.hash });
            blobs.push(ByteVec::from(sealed.bytes));
        }
        self.numbers += 1;
        let manifest = Manifest {
            account: self.chain.account(),
            app: app.clone(),
            replica,
            n: ManifestNumber(self.numbers),
            time_ms: now_ms(),
            lanes: self.lanes.get(app).cloned().unwrap_or_default(),
            runs: BTreeSet::new(),
            seen: BTreeMap::new(),
            apps: BTreeSet::from([app.clone()]),
            wants: BTreeSet::new(),
            chain: self.chain.head(),
        };
        let manifest = sign_manifest(&self.keys, manifest).expect("a manifest");
        PushRequest { blobs, manifest: ByteVec::from(manifest.encode()) }
    }

    /// Pushes rows of one table as one blob.
    ///
    /// # Panics
    /// The server refuses.
    pub async fn push(&mut self, app: &AppId, table: &str, rows: &[(&str, Value)]) -> PushResponse {
        let packed = plain(&self.body(table, rows));
        self.push_packed(app, table, packed).await
    }

    /// Pushes one blob of whatever was packed.
    ///
    /// # Panics
    /// The server refuses.
    pub async fn push_packed(&mut self, app: &AppId, table: &str, packed: Vec<u8>) -> PushResponse {
        let request = self.seal(app, &[(table, packed)]);
        self.client.push(app, &request).await.expect("a push")
    }

    /// Pulls a page.
    ///
    /// # Errors
    /// The server's.
    pub async fn pull(
        &self,
        app: &AppId,
        cursor: Option<&[u8]>,
        filter: &PullFilter,
    ) -> Result<PullResponse, ClientError> {
        self.client.pull_filtered(&self.replica(app), cursor, filter).await
    }
}

/// Packs a body as it is.
pub fn plain(body: &[u8]) -> Vec<u8> {
    [&[0], body].concat()
}

/// Packs a frame of zstd, whatever is in it.
pub fn zstd(frame: &[u8]) -> Vec<u8> {
    [&[1], frame].concat()
}

/// Base64url without padding.
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads base64url without padding.
///
/// # Panics
/// It is none.
pub fn decode(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).expect("base64url")
}

async fn sign_in(client: &SyncClient, keys: &DeviceKeys, chain: &Chain) -> String {
    let (account_id, device_id) = (chain.account(), keys.id());
    let request = ChallengeRequest { account_id, device_id };
    let given = client.challenge(&request).await.expect("a challenge");
    let nonce: [u8; 32] = decode(&given.nonce).try_into().expect("32 bytes");
    let challenge =
        Challenge { server: given.server_id, account: account_id, device: device_id, nonce };
    let key: [u8; 32] = decode(&given.token_key).try_into().expect("32 bytes");
    let signature = Signature(decode(&given.signature).try_into().expect("64 bytes"));
    let action = Action::SignIn;
    let answer = tidings_crypto::answer_challenge(keys, &challenge, &key, &signature, action);
    let signature = encode(&answer.expect("a challenge of this server").0);
    let request = TokenRequest { account_id, device_id, nonce: given.nonce, signature };
    client.token(&request).await.expect("a token").token
}

fn fresh_incarnation() -> Incarnation {
    use tidings_crypto::random::Rng as _;
    Incarnation(random::system().next_u64().to_be_bytes())
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    u64::try_from(now.as_millis()).expect("a clock of our time")
}
