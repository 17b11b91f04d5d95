//! Runs: signed statements about sealed parts that replace or fill in stretches of the log
//! (docs/protocol.md, "Run").

use std::collections::BTreeMap;

use tidings_wire::sync::ChainHead;
use tidings_wire::{AccountId, AppId, Epoch, Hash, Seq, TableTag, limits};

use crate::blob::{NONCE_LEN, TAG_LEN, hash_of};
use crate::chain::{Chain, Standing};
use crate::encoding::{DecodeError, FORMAT, Reader, Writer};
use crate::labels;
use crate::lane::Replica;
use crate::manifest::{read_chain_head, read_map, write_chain_head};
use crate::signature::{self, Signature, VerifyError};

/// What a run does to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// Takes the place of exactly what it covers.
    Replace,
    /// Replaces nothing; settles what is missing and raises lanes that it extends.
    Fill,
}

impl RunKind {
    /// The byte that stands for it.
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::Replace => 1,
            Self::Fill => 2,
        }
    }

    /// Reads the byte.
    ///
    /// # Errors
    /// [`DecodeError::NeedsNewer`] for an unknown kind.
    pub fn from_u8(byte: u8) -> Result<Self, DecodeError> {
        match byte {
            1 => Ok(Self::Replace),
            2 => Ok(Self::Fill),
            found => Err(DecodeError::NeedsNewer { what: "run kind", found }),
        }
    }
}

/// A stretch of a lane whose effect a run holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cover {
    /// Hash before the first blob of the stretch.
    pub prev: Hash,
    /// Its last blob.
    pub to: Seq,
    /// Hash of its last blob.
    pub hash: Hash,
}

/// One sealed part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// BLAKE3 of nonce and ciphertext.
    pub hash: Hash,
    /// Their length, in bytes.
    pub size: u32,
}

/// What a run says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStatement {
    /// What it does.
    pub kind: RunKind,
    /// The account.
    pub account: AccountId,
    /// The app.
    pub app: AppId,
    /// Who made it.
    pub author: Replica,
    /// The table.
    pub tag: TableTag,
    /// Stretches of lanes, by replica and first seq, which do not overlap.
    pub covers: BTreeMap<(Replica, Seq), Cover>,
    /// Per lane, up to where deleted rows were dropped for good.
    pub purged: BTreeMap<Replica, Seq>,
    /// The parts, rows in the order of their ids over all of them.
    pub parts: Vec<Part>,
    /// The epoch whose key sealed the parts.
    pub epoch: Epoch,
    /// Head of the device chain as the author knew it.
    pub chain: ChainHead,
}

/// Length of a cover in the encoding, in bytes.
const COVER_LEN: usize = Replica::LEN + 8 + 32 + 8 + 32;
/// Length of a part in the encoding, in bytes.
const PART_LEN: usize = 32 + 4;

impl RunStatement {
    /// Appends the encoding, the signature left out.
    pub fn write(&self, writer: &mut Writer) {
        writer.u8(FORMAT).u8(self.kind.to_u8()).raw(&self.account.0).app(&self.app);
        self.author.write(writer);
        writer.raw(&self.tag.0);
        writer.count(self.covers.len());
        for ((replica, from), cover) in &self.covers {
            replica.write(writer);
            writer.u64(from.0).raw(&cover.prev.0).u64(cover.to.0).raw(&cover.hash.0);
        }
        writer.count(self.purged.len());
        for (replica, seq) in &self.purged {
            replica.write(writer);
            writer.u64(seq.0);
        }
        writer.count(self.parts.len());
        for part in &self.parts {
            writer.raw(&part.hash.0).u32(part.size);
        }
        writer.u32(self.epoch.0);
        write_chain_head(writer, &self.chain);
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed, of a later format or kind, or its covers overlap.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.format("run format")?;
        let kind = RunKind::from_u8(reader.u8("a run's kind")?)?;
        let account = reader.account()?;
        let app = reader.app()?;
        let author = Replica::read(reader)?;
        let tag = reader.tag()?;
        let covers = read_map(reader, "covers", COVER_LEN, |reader| {
            let key = (Replica::read(reader)?, reader.seq()?);
            Ok((key, Cover { prev: reader.hash()?, to: reader.seq()?, hash: reader.hash()? }))
        })?;
        check_covers(&covers)?;
        let purged = read_map(reader, "purged lanes", Replica::LEN + 8, |reader| {
            Ok((Replica::read(reader)?, reader.seq()?))
        })?;
        let count = reader.count("parts", PART_LEN)?;
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            parts.push(Part { hash: reader.hash()?, size: reader.u32("a part's size")? });
        }
        check_parts(&parts)?;
        let epoch = reader.epoch()?;
        let chain = read_chain_head(reader)?;
        Ok(Self { kind, account, app, author, tag, covers, purged, parts, epoch, chain })
    }

    /// What is signed: label, statement.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut writer = labels::RUN.start();
        self.write(&mut writer);
        writer.finish()
    }

    /// The run's hash: BLAKE3 of what is signed.
    pub fn hash(&self) -> Hash {
        hash_of(&self.signed_bytes())
    }

    /// Associated data of this run's parts.
    pub fn part_data(&self) -> Vec<u8> {
        part_data(self.account, &self.app, self.tag, self.epoch)
    }
}

/// Associated data of a run's part: label, account, app, tag, epoch.
pub fn part_data(account: AccountId, app: &AppId, tag: TableTag, epoch: Epoch) -> Vec<u8> {
    let mut writer = labels::RUN_PART.start();
    writer.raw(&account.0).app(app).raw(&tag.0).u32(epoch.0);
    writer.finish()
}

/// Hash of a sealed part: BLAKE3 of nonce and ciphertext.
pub fn part_hash(sealed: &[u8]) -> Hash {
    hash_of(sealed)
}

/// Each stretch goes forward, starts at 1 or names what is before, and ends before the next.
fn check_covers(covers: &BTreeMap<(Replica, Seq), Cover>) -> Result<(), DecodeError> {
    let mut before: Option<(Replica, Seq)> = None;
    for ((replica, from), cover) in covers {
        let starts = from.0 > 1 || (from.0 == 1 && cover.prev == Hash::ZERO);
        let overlaps = before.is_some_and(|(lane, to)| lane == *replica && to >= *from);
        if !starts || cover.to < *from || overlaps {
            return Err(DecodeError::Invalid("a run's covers do not fit together"));
        }
        before = Some((*replica, cover.to));
    }
    Ok(())
}

/// No part is smaller than its nonce and tag, nor larger than a blob may be.
fn check_parts(parts: &[Part]) -> Result<(), DecodeError> {
    let fits = |part: &Part| {
        usize::try_from(part.size)
            .is_ok_and(|size| (NONCE_LEN + TAG_LEN..=limits::BLOB).contains(&size))
    };
    if parts.iter().all(fits) { Ok(()) } else { Err(DecodeError::Invalid("a part's size")) }
}

/// A run statement with its signature: taken apart, not yet believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedRun {
    /// What it says.
    pub statement: RunStatement,
    /// The author's signature.
    pub signature: Signature,
}

impl SignedRun {
    /// The encoding: statement, signature.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.statement.write(&mut writer);
        writer.raw(&self.signature.0);
        writer.finish()
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// When it is malformed, larger than [`limits::RUN_STATEMENT`], or of a later format.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::bounded(bytes, "a run statement", limits::RUN_STATEMENT)?;
        let statement = RunStatement::read(&mut reader)?;
        let signature = Signature::read(&mut reader)?;
        reader.finish()?;
        Ok(Self { statement, signature })
    }

    /// Checks it against the chain: its account, its author, its epoch, its signature.
    ///
    /// That its author's newest manifest lists it is judged apart, where manifests are known.
    ///
    /// # Errors
    /// [`VerifyError`]; with [`VerifyError::needs_chain`] a longer chain could change the verdict.
    pub fn verify(self, chain: &Chain) -> Result<VerifiedRun, VerifyError> {
        let statement = &self.statement;
        let standing = chain.author(statement.account, &statement.app, statement.author)?;
        let device = chain.device(statement.author.device)?;
        if !chain.has_epoch(statement.epoch) {
            return Err(VerifyError::UnknownEpoch(statement.epoch));
        }
        if FORMAT < chain.floor().format {
            return Err(VerifyError::BelowFloor(FORMAT));
        }
        let signed = statement.signed_bytes();
        signature::verify(&device.public.signing, &signed, &self.signature)?;
        Ok(VerifiedRun { hash: hash_of(&signed), signed: self, standing })
    }
}

/// A run statement whose signature was checked; only [`SignedRun::verify`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedRun {
    signed: SignedRun,
    hash: Hash,
    standing: Standing,
}

impl VerifiedRun {
    /// What it says.
    pub fn statement(&self) -> &RunStatement {
        &self.signed.statement
    }

    /// The statement with its signature.
    pub fn signed(&self) -> &SignedRun {
        &self.signed
    }

    /// The run's hash.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Whether its author is active, or unlinked: then it counts only if the manifest that the
    /// cut names lists it.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Gives the sealed part back if it is the `number`th of this run (from 0).
    pub fn part<'a>(&self, number: usize, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let part = self.signed.statement.parts.get(number)?;
        let fits = usize::try_from(part.size) == Ok(sealed.len()) && part_hash(sealed) == part.hash;
        fits.then_some(sealed)
    }
}
