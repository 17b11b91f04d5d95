//! What the two ends say to each other, as bytes (docs/protocol.md, "Pairing").

use tidings_proof::encoding::FORMAT;
use tidings_proof::manifest::AppManifestHead;
use tidings_proof::{DecodeError, DevicePublic, Reader, Signature, Writer};
use tidings_wire::sync::ChainHead;
use tidings_wire::{AccountId, ServerId, limits};

use crate::entries::NAME;

/// What passes through the mailbox, as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outer<'a> {
    /// The joining side's PAKE message.
    PakeNew(&'a [u8]),
    /// The linked side's PAKE message and its confirmation.
    PakeOld(&'a [u8], [u8; 32]),
    /// The joining side's confirmation.
    Confirm([u8; 32]),
    /// A sealed [`Inner`]: nonce and ciphertext.
    Sealed(&'a [u8]),
    /// The codes were not the same. Anybody can write it: it only spares the other side a wait.
    Refused,
}

impl<'a> Outer<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(FORMAT);
        match self {
            Self::PakeNew(message) => writer.u8(1).bytes(message),
            Self::PakeOld(message, confirmation) => writer.u8(2).bytes(message).raw(confirmation),
            Self::Confirm(confirmation) => writer.u8(3).raw(confirmation),
            Self::Sealed(sealed) => writer.u8(4).bytes(sealed),
            Self::Refused => writer.u8(5),
        };
        writer.finish()
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let limit = limits::MAILBOX_MESSAGE;
        let mut reader = Reader::bounded(bytes, "a pairing message", limit)?;
        reader.format("pairing format")?;
        let outer = match reader.u8("a message's kind")? {
            1 => Self::PakeNew(reader.bytes("a key exchange message", limit)?),
            2 => Self::PakeOld(
                reader.bytes("a key exchange message", limit)?,
                reader.array("a confirmation")?,
            ),
            3 => Self::Confirm(reader.array("a confirmation")?),
            4 => Self::Sealed(reader.bytes("a sealed message", limit)?),
            5 => Self::Refused,
            found => return Err(DecodeError::NeedsNewer { what: "pairing message", found }),
        };
        reader.finish()?;
        Ok(outer)
    }
}

/// What is inside sealed messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inner {
    /// Some of the newest manifest heads; more follow.
    Heads(Vec<AppManifestHead>),
    /// The account, with the rest of the heads.
    Offer(Offer),
    /// The new device's keys and co-signature.
    Answer(Answer),
    /// The new device is in the chain.
    Linked(Linked),
    /// The other side gave up.
    Stop(StopReason),
}

/// What the linked side tells about the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Which attempt, from 0: another one follows when the chain moved meanwhile.
    pub round: u32,
    /// The account to join.
    pub account: AccountId,
    /// Its server.
    pub server: ServerId,
    /// Head of its device chain: the new device joins directly after it.
    pub chain: ChainHead,
    /// Newest manifests that the linked side accepted: the new one refuses a server that shows
    /// less. They travel with the first round only; a joiner's later offers repeat them.
    pub heads: Vec<AppManifestHead>,
}

/// What the joining side answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The round that it answers.
    pub round: u32,
    /// Its public keys.
    pub device: DevicePublic,
    /// The name that it gives itself, at most [`NAME`] bytes.
    pub name: String,
    /// Its signature that it joins this account at this index.
    pub co_signature: Signature,
}

/// The entry that added the new device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linked {
    /// The chain's head with it.
    pub chain: ChainHead,
}

/// Why a side gave up after both had confirmed the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The person said no.
    Declined,
    /// The account has as many devices as it may.
    TooManyDevices,
    /// Something else failed.
    Failed,
}

impl StopReason {
    const fn to_u8(self) -> u8 {
        match self {
            Self::Declined => 1,
            Self::TooManyDevices => 2,
            Self::Failed => 3,
        }
    }

    /// Reasons that a later release adds count as [`StopReason::Failed`].
    const fn from_u8(byte: u8) -> Self {
        match byte {
            1 => Self::Declined,
            2 => Self::TooManyDevices,
            _ => Self::Failed,
        }
    }
}

impl Inner {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Self::Heads(heads) => {
                writer.u8(1);
                write_heads(&mut writer, heads);
            }
            Self::Offer(offer) => {
                writer.u8(2).u32(offer.round).raw(&offer.account.0).raw(&offer.server.0);
                writer.u64(offer.chain.index.0).raw(&offer.chain.hash.0);
                write_heads(&mut writer, &offer.heads);
            }
            Self::Answer(answer) => {
                writer.u8(3).u32(answer.round);
                answer.device.write(&mut writer);
                writer.bytes(answer.name.as_bytes()).raw(&answer.co_signature.0);
            }
            Self::Linked(linked) => {
                writer.u8(4).u64(linked.chain.index.0).raw(&linked.chain.hash.0);
            }
            Self::Stop(reason) => {
                writer.u8(5).u8(reason.to_u8());
            }
        }
        writer.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let inner = match reader.u8("a message's kind")? {
            1 => Self::Heads(read_heads(&mut reader)?),
            2 => Self::Offer(Offer {
                round: reader.u32("a round")?,
                account: reader.account()?,
                server: ServerId(reader.array("a server id")?),
                chain: ChainHead { index: reader.chain_index()?, hash: reader.hash()? },
                heads: read_heads(&mut reader)?,
            }),
            3 => Self::Answer(Answer {
                round: reader.u32("a round")?,
                device: DevicePublic::read(&mut reader)?,
                name: read_name(&mut reader)?,
                co_signature: Signature::read(&mut reader)?,
            }),
            4 => {
                let chain = ChainHead { index: reader.chain_index()?, hash: reader.hash()? };
                Self::Linked(Linked { chain })
            }
            5 => Self::Stop(StopReason::from_u8(reader.u8("a reason")?)),
            found => return Err(DecodeError::NeedsNewer { what: "pairing message", found }),
        };
        reader.finish()?;
        Ok(inner)
    }
}

fn write_heads(writer: &mut Writer, heads: &[AppManifestHead]) {
    writer.count(heads.len());
    heads.iter().for_each(|head| head.write(writer));
}

fn read_heads(reader: &mut Reader<'_>) -> Result<Vec<AppManifestHead>, DecodeError> {
    let count = reader.count("manifest heads", AppManifestHead::MIN_LEN)?;
    (0..count).map(|_| AppManifestHead::read(reader)).collect()
}

fn read_name(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let name = reader.bytes("a name", NAME)?;
    let name =
        std::str::from_utf8(name).map_err(|_| DecodeError::Invalid("a name is not UTF-8"))?;
    Ok(name.to_owned())
}
