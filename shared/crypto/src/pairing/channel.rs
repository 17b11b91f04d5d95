//! The channel after the PAKE: confirmation of the key, then sealed messages in order.

use subtle::ConstantTimeEq;
use tidings_proof::labels::{self, Label};

use crate::aead;
use crate::derive::{self, Key};
use crate::pairing::PairingError;
use crate::pairing::message::{Inner, Outer};
use crate::pairing::pake::{PakeIdentities, Role};
use crate::random::CryptoRng;

/// One end of the channel.
pub(crate) struct Channel {
    role: Role,
    keys: Keys,
    /// Index of the next message of this side.
    next_sent: u32,
    /// Index of the next message of the other side.
    next_received: u32,
}

/// What comes of the PAKE's key, for one end.
struct Keys {
    own_confirmation: [u8; 32],
    other_confirmation: [u8; 32],
    own_key: Key,
    other_key: Key,
}

/// The two PAKE messages.
pub(crate) struct Transcript<'a> {
    pub(crate) identities: &'a PakeIdentities,
    pub(crate) new: &'a [u8],
    pub(crate) old: &'a [u8],
}

impl Channel {
    /// Derives confirmations and keys. `next_sent` and `next_received` are the indexes of the next
    /// message each way.
    pub(crate) fn new(
        role: Role,
        secret: &[u8],
        transcript: &Transcript<'_>,
        (next_sent, next_received): (u32, u32),
    ) -> Self {
        let confirmation = |label: Label| {
            let mut writer = labels::PAIR_TRANSCRIPT.start();
            writer.bytes(&transcript.identities.new).bytes(&transcript.identities.old);
            writer.bytes(transcript.new).bytes(transcript.old);
            *derive::mac(&derive::key(secret, label), writer.as_bytes())
        };
        let new = confirmation(labels::PAIR_CONFIRM_NEW);
        let old = confirmation(labels::PAIR_CONFIRM_OLD);
        let key = |label| derive::key(secret, label);
        let keys = match role {
            Role::New => Keys {
                own_confirmation: new,
                other_confirmation: old,
                own_key: key(labels::PAIR_KEY_NEW),
                other_key: key(labels::PAIR_KEY_OLD),
            },
            Role::Old => Keys {
                own_confirmation: old,
                other_confirmation: new,
                own_key: key(labels::PAIR_KEY_OLD),
                other_key: key(labels::PAIR_KEY_NEW),
            },
        };
        Self { role, keys, next_sent, next_received }
    }

    /// What shows the other side that this one has the same key.
    pub(crate) fn confirmation(&self) -> [u8; 32] {
        self.keys.own_confirmation
    }

    /// Checks the other side's confirmation in constant time.
    pub(crate) fn check(&self, confirmation: &[u8; 32]) -> Result<(), PairingError> {
        let same = bool::from(self.keys.other_confirmation.ct_eq(confirmation));
        if same { Ok(()) } else { Err(PairingError::WrongCode) }
    }

    /// Counts a message that was sent or received outside of the channel's seal.
    pub(crate) fn sent(&mut self) {
        self.next_sent = self.next_sent.saturating_add(1);
    }

    /// As [`Channel::sent`], for the other direction.
    pub(crate) fn received(&mut self) {
        self.next_received = self.next_received.saturating_add(1);
    }

    /// Seals this side's next message.
    pub(crate) fn seal(&mut self, inner: &Inner, rng: &mut impl CryptoRng) -> Vec<u8> {
        let data = message_data(self.role, self.next_sent);
        let sealed = aead::seal(&self.keys.own_key, &data, &inner.encode(), rng);
        self.sent();
        Outer::Sealed(&sealed).encode()
    }

    /// Opens the other side's next message.
    pub(crate) fn open(&mut self, message: &[u8]) -> Result<Inner, PairingError> {
        let Outer::Sealed(sealed) = Outer::decode(message)? else {
            return Err(PairingError::OutOfTurn);
        };
        let other = match self.role {
            Role::New => Role::Old,
            Role::Old => Role::New,
        };
        let data = message_data(other, self.next_received);
        let inner = aead::open(&self.keys.other_key, &data, sealed);
        let inner = inner.ok_or(PairingError::Tampered)?;
        self.received();
        Ok(Inner::decode(&inner)?)
    }
}

/// Associated data of a sealed message: label, side (1 new, 2 old), index.
fn message_data(role: Role, index: u32) -> Vec<u8> {
    let mut writer = labels::PAIR_MESSAGE.start();
    writer.u8(match role {
        Role::New => 1,
        Role::Old => 2,
    });
    writer.u32(index);
    writer.finish()
}
