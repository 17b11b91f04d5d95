//! Manifests: what a replica says it wrote, saw and misses (docs/protocol.md, "Manifest").
//!
//! They are how dropping, rolling back and forking are found out. Every list stands in rising
//! order of its key, without repeats, so that a manifest has one encoding.

use std::collections::{BTreeMap, BTreeSet};

use tidings_wire::sync::{ChainHead, ManifestMark};
use tidings_wire::{
    AccountId, AppId, DeviceId, Hash, Incarnation, ManifestNumber, Seq, TableTag, limits,
};

use crate::blob::hash_of;
use crate::chain::{Chain, Standing};
use crate::encoding::{DecodeError, FORMAT, Reader, Writer};
use crate::labels;
use crate::lane::{LaneHead, LaneSeq, Replica};
use crate::signature::{self, Signature, VerifyError};

/// One statement of one replica in one app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The account.
    pub account: AccountId,
    /// The app.
    pub app: AppId,
    /// Who says it.
    pub replica: Replica,
    /// Its number: rises, may skip, never twice.
    pub n: ManifestNumber,
    /// When, Unix milliseconds by the device's clock.
    pub time_ms: u64,
    /// Heads of all lanes of this replica in this app.
    pub lanes: BTreeMap<TableTag, LaneHead>,
    /// The runs of this replica that still stand.
    pub runs: BTreeSet<(TableTag, Hash)>,
    /// The newest manifest it accepted of each other replica in this app.
    pub seen: BTreeMap<Replica, ManifestNumber>,
    /// The account's apps that it knows.
    pub apps: BTreeSet<AppId>,
    /// Blobs that it misses or could not open.
    pub wants: BTreeSet<LaneSeq>,
    /// Head of the device chain as it knows it.
    pub chain: ChainHead,
}

impl Manifest {
    /// Appends the encoding, the signature left out.
    pub fn write(&self, writer: &mut Writer) {
        writer.u8(FORMAT).raw(&self.account.0).app(&self.app);
        self.replica.write(writer);
        writer.u64(self.n.0).u64(self.time_ms);
        writer.count(self.lanes.len());
        for (tag, head) in &self.lanes {
            writer.raw(&tag.0).u64(head.seq.0).raw(&head.hash.0);
        }
        writer.count(self.runs.len());
        for (tag, hash) in &self.runs {
            writer.raw(&tag.0).raw(&hash.0);
        }
        writer.count(self.seen.len());
        for (replica, n) in &self.seen {
            replica.write(writer);
            writer.u64(n.0);
        }
        writer.count(self.apps.len());
        for app in &self.apps {
            writer.app(app);
        }
        writer.count(self.wants.len());
        for want in &self.wants {
            want.replica.write(writer);
            writer.raw(&want.tag.0).u64(want.seq.0);
        }
        write_chain_head(writer, &self.chain);
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed, out of order or of a later format.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.format("manifest format")?;
        let account = reader.account()?;
        let app = reader.app()?;
        let replica = Replica::read(reader)?;
        let n = reader.manifest_number()?;
        let time_ms = reader.u64("a time")?;
        let lanes = read_map(reader, "lane heads", 56, |reader| {
            let (tag, seq, hash) = (reader.tag()?, reader.seq()?, reader.hash()?);
            if seq == Seq(0) {
                return Err(DecodeError::Invalid("a lane head is numbered 0"));
            }
            Ok((tag, LaneHead { seq, hash }))
        })?;
        at_most("lane heads", lanes.len(), limits::MANIFEST_LANES)?;
        let runs = read_set(reader, "runs", TableTag::LEN + Hash::LEN, |reader| {
            Ok((reader.tag()?, reader.hash()?))
        })?;
        let seen = read_map(reader, "seen manifests", Replica::LEN + 8, |reader| {
            Ok((Replica::read(reader)?, reader.manifest_number()?))
        })?;
        let apps = read_set(reader, "apps", 2, Reader::app)?;
        at_most("apps", apps.len(), limits::APPS)?;
        let wants = read_set(reader, "wants", Replica::LEN + 24, |reader| {
            let (replica, tag, seq) = (Replica::read(reader)?, reader.tag()?, reader.seq()?);
            Ok(LaneSeq { replica, tag, seq })
        })?;
        let chain = read_chain_head(reader)?;
        Ok(Self { account, app, replica, n, time_ms, lanes, runs, seen, apps, wants, chain })
    }

    /// What is signed: label, manifest.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut writer = labels::MANIFEST.start();
        self.write(&mut writer);
        writer.finish()
    }

    /// The manifest's hash: BLAKE3 of what is signed.
    pub fn hash(&self) -> Hash {
        hash_of(&self.signed_bytes())
    }
}

/// A manifest with its signature: taken apart, not yet believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedManifest {
    /// What it says.
    pub manifest: Manifest,
    /// The device's signature.
    pub signature: Signature,
}

impl SignedManifest {
    /// The encoding: manifest, signature.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.manifest.write(&mut writer);
        writer.raw(&self.signature.0);
        writer.finish()
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed, larger than [`limits::MANIFEST`], or of a later format.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::bounded(bytes, "a manifest", limits::MANIFEST)?;
        let manifest = Manifest::read(&mut reader)?;
        let signature = Signature::read(&mut reader)?;
        reader.finish()?;
        Ok(Self { manifest, signature })
    }

    /// Checks it against the chain: its account, its author, its signature.
    ///
    /// How its chain head relates to ours is judged apart, by [`Chain::relation`].
    ///
    /// # Errors
    /// [`VerifyError`]; with [`VerifyError::needs_chain`] a longer chain could change the verdict.
    /// A manifest of an unlinked device other than the one its cut names is
    /// [`VerifyError::RevokedAuthor`] when its number is above the cut's or its hash differs.
    pub fn verify(self, chain: &Chain) -> Result<VerifiedManifest, VerifyError> {
        let manifest = &self.manifest;
        let standing = chain.author(manifest.account, &manifest.app, manifest.replica)?;
        let device = chain.device(manifest.replica.device)?;
        if FORMAT < chain.floor().format {
            return Err(VerifyError::BelowFloor(FORMAT));
        }
        let signed = manifest.signed_bytes();
        let hash = hash_of(&signed);
        if let Standing::Cut(mark) = standing
            && (manifest.n > mark.n || (manifest.n == mark.n && hash != mark.hash))
        {
            return Err(VerifyError::RevokedAuthor(manifest.replica.device));
        }
        signature::verify(&device.public.signing, &signed, &self.signature)?;
        Ok(VerifiedManifest { signed: self, hash, standing })
    }
}

/// A manifest whose signature was checked; only [`SignedManifest::verify`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedManifest {
    signed: SignedManifest,
    hash: Hash,
    standing: Standing,
}

impl VerifiedManifest {
    /// What it says.
    pub fn manifest(&self) -> &Manifest {
        &self.signed.manifest
    }

    /// The manifest with its signature.
    pub fn signed(&self) -> &SignedManifest {
        &self.signed
    }

    /// Its hash.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Its number and hash.
    pub fn mark(&self) -> ManifestMark {
        ManifestMark { n: self.signed.manifest.n, hash: self.hash }
    }

    /// Whether its author is active, or unlinked with this or a later manifest as its cut.
    pub fn standing(&self) -> Standing {
        self.standing
    }
}

/// Appends a chain head: index, hash.
pub(crate) fn write_chain_head(writer: &mut Writer, head: &ChainHead) {
    writer.u64(head.index.0).raw(&head.hash.0);
}

/// Reads a chain head.
pub(crate) fn read_chain_head(reader: &mut Reader<'_>) -> Result<ChainHead, DecodeError> {
    Ok(ChainHead { index: reader.chain_index()?, hash: reader.hash()? })
}

/// Refuses more items than a limit.
fn at_most(what: &'static str, count: usize, limit: usize) -> Result<(), DecodeError> {
    if count <= limit { Ok(()) } else { Err(DecodeError::TooLong { what, limit }) }
}

/// Reads a counted list of pairs whose keys rise.
pub(crate) fn read_map<'a, K: Ord, V>(
    reader: &mut Reader<'a>,
    what: &'static str,
    item_len: usize,
    mut item: impl FnMut(&mut Reader<'a>) -> Result<(K, V), DecodeError>,
) -> Result<BTreeMap<K, V>, DecodeError> {
    let mut map = BTreeMap::new();
    for _ in 0..reader.count(what, item_len)? {
        let (key, value) = item(reader)?;
        if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(DecodeError::Invalid("a list is not in rising order"));
        }
        map.insert(key, value);
    }
    Ok(map)
}

/// Reads a counted list of items that rise.
pub(crate) fn read_set<'a, K: Ord>(
    reader: &mut Reader<'a>,
    what: &'static str,
    item_len: usize,
    mut item: impl FnMut(&mut Reader<'a>) -> Result<K, DecodeError>,
) -> Result<BTreeSet<K>, DecodeError> {
    let mut set = BTreeSet::new();
    for _ in 0..reader.count(what, item_len)? {
        let key = item(reader)?;
        if set.last().is_some_and(|last| *last >= key) {
            return Err(DecodeError::Invalid("a list is not in rising order"));
        }
        set.insert(key);
    }
    Ok(set)
}

/// Newest manifest of one replica in one app: what a revocation and a pairing speak of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppManifestHead {
    /// The app.
    pub app: AppId,
    /// Whose.
    pub replica: Replica,
    /// Its number.
    pub n: ManifestNumber,
    /// Its hash.
    pub hash: Hash,
}

impl AppManifestHead {
    /// Least length of an encoding, in bytes.
    pub const MIN_LEN: usize = 2 + DeviceId::LEN + Incarnation::LEN + 8 + Hash::LEN;

    /// Appends the encoding: app, device, incarnation, n, hash.
    pub fn write(&self, writer: &mut Writer) {
        writer.app(&self.app);
        self.replica.write(writer);
        writer.u64(self.n.0).raw(&self.hash.0);
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let app = reader.app()?;
        let replica = Replica::read(reader)?;
        Ok(Self { app, replica, n: reader.manifest_number()?, hash: reader.hash()? })
    }
}
