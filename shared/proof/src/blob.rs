//! Sealed blobs as they travel: header, nonce, ciphertext, signature (docs/protocol.md, "Blob").
//!
//! The signature covers the header and the *hash* of the sealed bytes, so that a header can be
//! verified, and a lane proved, without its body.

use tidings_wire::{AccountId, Epoch, Hash, Seq, limits};

use crate::chain::{Chain, Standing};
use crate::encoding::{DecodeError, FORMAT, Reader, Writer};
use crate::labels;
use crate::lane::{Lane, LaneHead, Replica};
use crate::signature::{self, Signature, VerifyError};

/// Length of an XChaCha20-Poly1305 nonce, in bytes.
pub const NONCE_LEN: usize = 24;
/// Length of a Poly1305 tag, in bytes.
pub const TAG_LEN: usize = 16;

/// What a blob is and where it stands. Its encoding is the associated data of the sealed body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobHeader {
    /// The account.
    pub account: AccountId,
    /// The lane.
    pub lane: Lane,
    /// Its number in the lane, from 1.
    pub seq: Seq,
    /// Hash of the lane's previous blob; zeros before the first.
    pub prev: Hash,
    /// The epoch whose key sealed the body.
    pub epoch: Epoch,
}

impl BlobHeader {
    /// The encoding: format, account, app, device, incarnation, tag, seq, prev, epoch.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.finish()
    }

    /// Appends the encoding.
    pub fn write(&self, writer: &mut Writer) {
        writer.u8(FORMAT).raw(&self.account.0).app(&self.lane.app);
        self.lane.replica.write(writer);
        writer.raw(&self.lane.tag.0).u64(self.seq.0).raw(&self.prev.0).u32(self.epoch.0);
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed, of a later format, or its seq and prev contradict each other.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.format("blob format")?;
        let account = reader.account()?;
        let app = reader.app()?;
        let replica = Replica::read(reader)?;
        let tag = reader.tag()?;
        let (seq, prev, epoch) = (reader.seq()?, reader.hash()?, reader.epoch()?);
        match seq {
            Seq(0) => return Err(DecodeError::Invalid("a blob is numbered 0")),
            Seq(1) if prev != Hash::ZERO => {
                return Err(DecodeError::Invalid("the first blob of a lane names one before it"));
            }
            _ => {}
        }
        Ok(Self { account, lane: Lane { app, replica, tag }, seq, prev, epoch })
    }

    /// What is signed: label, header, body hash.
    pub fn signed_bytes(&self, body_hash: &Hash) -> Vec<u8> {
        let mut writer = labels::BLOB.start();
        self.write(&mut writer);
        writer.raw(&body_hash.0);
        writer.finish()
    }

    /// The blob's hash: BLAKE3 of what is signed.
    pub fn hash(&self, body_hash: &Hash) -> Hash {
        hash_of(&self.signed_bytes(body_hash))
    }

    /// Whether it directly follows `head` in its lane.
    pub fn follows(&self, head: &LaneHead) -> bool {
        head.seq.0.checked_add(1) == Some(self.seq.0) && head.hash == self.prev
    }
}

/// BLAKE3 of signed bytes.
pub fn hash_of(signed_bytes: &[u8]) -> Hash {
    Hash(*blake3::hash(signed_bytes).as_bytes())
}

/// A header with the hash of its body and the signature: proves a place without the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHeader {
    /// The header.
    pub header: BlobHeader,
    /// BLAKE3 of nonce and ciphertext.
    pub body_hash: Hash,
    /// The device's signature.
    pub signature: Signature,
}

impl SignedHeader {
    /// The encoding: header, body hash, signature.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.header.write(&mut writer);
        writer.raw(&self.body_hash.0).raw(&self.signature.0);
        writer.finish()
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed or of a later format.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let header = BlobHeader::read(&mut reader)?;
        let body_hash = reader.hash()?;
        let signature = Signature::read(&mut reader)?;
        reader.finish()?;
        Ok(Self { header, body_hash, signature })
    }

    /// The blob's hash.
    pub fn hash(&self) -> Hash {
        self.header.hash(&self.body_hash)
    }

    /// Checks the signature against the chain.
    ///
    /// # Errors
    /// As [`Blob::verify`].
    pub fn verify(&self, chain: &Chain) -> Result<VerifiedHeader, VerifyError> {
        let header = &self.header;
        let standing = chain.author(header.account, &header.lane.app, header.lane.replica)?;
        let device = chain.device(header.lane.replica.device)?;
        if !chain.has_epoch(header.epoch) {
            return Err(VerifyError::UnknownEpoch(header.epoch));
        }
        if FORMAT < chain.floor().format {
            return Err(VerifyError::BelowFloor(FORMAT));
        }
        let signed = header.signed_bytes(&self.body_hash);
        signature::verify(&device.public.signing, &signed, &self.signature)?;
        Ok(VerifiedHeader { signed: self.clone(), hash: hash_of(&signed), standing })
    }
}

/// A header whose signature was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedHeader {
    signed: SignedHeader,
    hash: Hash,
    standing: Standing,
}

impl VerifiedHeader {
    /// The header.
    pub fn header(&self) -> &BlobHeader {
        &self.signed.header
    }

    /// The header with body hash and signature.
    pub fn signed(&self) -> &SignedHeader {
        &self.signed
    }

    /// BLAKE3 of nonce and ciphertext.
    pub fn body_hash(&self) -> Hash {
        self.signed.body_hash
    }

    /// The blob's hash.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The lane's head once this blob stands in it.
    pub fn lane_head(&self) -> LaneHead {
        LaneHead { seq: self.signed.header.seq, hash: self.hash }
    }

    /// Whether its author is active, or unlinked with a cut: then it counts only up to the lane
    /// heads of the manifest that the cut names.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }
}

/// A blob as it arrived: taken apart, not yet believed.
#[derive(Debug, Clone)]
pub struct Blob<'a> {
    bytes: &'a [u8],
    sealed: &'a [u8],
    signed: SignedHeader,
}

impl<'a> Blob<'a> {
    /// Takes a blob apart and hashes its sealed bytes.
    ///
    /// # Errors
    /// When it is malformed, larger than [`limits::BLOB`], or of a later format.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::bounded(bytes, "a blob", limits::BLOB)?;
        let header = BlobHeader::read(&mut reader)?;
        let sealed_len = reader
            .remaining()
            .checked_sub(Signature::LEN)
            .filter(|len| *len >= NONCE_LEN + TAG_LEN)
            .ok_or(DecodeError::Short("a sealed body"))?;
        let sealed = reader.raw("a sealed body", sealed_len)?;
        let signature = Signature::read(&mut reader)?;
        reader.finish()?;
        let body_hash = hash_of(sealed);
        Ok(Self { bytes, sealed, signed: SignedHeader { header, body_hash, signature } })
    }

    /// Joins header, sealed bytes (nonce and ciphertext) and signature.
    pub fn join(header: &BlobHeader, sealed: &[u8], signature: &Signature) -> Vec<u8> {
        let mut writer = Writer::new();
        header.write(&mut writer);
        writer.raw(sealed).raw(&signature.0);
        writer.finish()
    }

    /// The whole blob.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The header.
    pub fn header(&self) -> &BlobHeader {
        &self.signed.header
    }

    /// Header, body hash, signature.
    pub fn signed_header(&self) -> &SignedHeader {
        &self.signed
    }

    /// The blob's hash.
    pub fn hash(&self) -> Hash {
        self.signed.hash()
    }

    /// Checks it against the chain: its account, its author, its epoch, its signature.
    ///
    /// # Errors
    /// [`VerifyError`]; with [`VerifyError::needs_chain`] a longer chain could change the verdict.
    pub fn verify(self, chain: &Chain) -> Result<VerifiedBlob<'a>, VerifyError> {
        let header = self.signed.verify(chain)?;
        Ok(VerifiedBlob { header, sealed: self.sealed })
    }
}

/// A blob whose signature was checked; only [`Blob::verify`] makes one.
#[derive(Debug, Clone)]
pub struct VerifiedBlob<'a> {
    header: VerifiedHeader,
    sealed: &'a [u8],
}

impl<'a> VerifiedBlob<'a> {
    /// The header.
    pub fn header(&self) -> &BlobHeader {
        self.header.header()
    }

    /// The header as proved, to keep without the body.
    pub fn verified_header(&self) -> &VerifiedHeader {
        &self.header
    }

    /// The blob's hash.
    pub fn hash(&self) -> Hash {
        self.header.hash()
    }

    /// As [`VerifiedHeader::standing`].
    pub fn standing(&self) -> &Standing {
        self.header.standing()
    }

    /// Nonce and ciphertext.
    pub fn sealed(&self) -> &'a [u8] {
        self.sealed
    }
}
