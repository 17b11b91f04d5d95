//! The linked computer's end of a pairing.

use std::fmt;

use tidings_proof::manifest::AppManifestHead;
use tidings_wire::sync::ChainHead;
use tidings_wire::{AccountId, ChainIndex, ServerId, limits};

use crate::pairing::PairingError;
use crate::pairing::channel::{Channel, Transcript};
use crate::pairing::code::PairingCode;
use crate::pairing::message::{Answer, Inner, Linked, Offer, Outer, StopReason};
use crate::pairing::pake::{Pake, PakeIdentities, Role, SpakeEd25519};
use crate::random::CryptoRng;

/// Most manifest heads in one message, so that the longest stay below its limit.
const HEADS_PER_MESSAGE: usize = limits::MAILBOX_MESSAGE / (AppManifestHead::MIN_LEN + 64) - 4;

/// The inviting end: [`Inviter::start`] with the `new` side's first message, then
/// [`Inviter::receive`] for each later one in order; [`Inviter::offer`] after
/// [`InviterEvent::Confirmed`] and again whenever the chain moved; [`Inviter::linked`] at the end.
///
/// After an error it is over for good, and so is the code.
pub struct Inviter {
    server: ServerId,
    state: State,
}

enum State {
    /// Waits for the other side's confirmation.
    Started(Channel),
    /// Both have confirmed.
    Open { channel: Channel, offer: Option<(AccountId, ChainIndex)>, rounds: u32 },
    /// It failed or ended.
    Over,
}

/// What a message meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InviterEvent {
    /// The codes were the same: [`Inviter::offer`].
    Confirmed,
    /// The new device's keys: append them with its co-signature, then [`Inviter::linked`], or
    /// [`Inviter::offer`] again if the chain moved. The co-signature was checked.
    Answer(Box<Answer>),
    /// The other side gave up.
    Stopped(StopReason),
}

impl Inviter {
    /// Starts with the code as typed and the `new` side's message of index 0; gives this side's
    /// message of index 0.
    ///
    /// # Errors
    /// [`PairingError`].
    pub fn start(
        code: &PairingCode,
        server: ServerId,
        first: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<(Self, Vec<u8>), PairingError> {
        Self::start_with::<SpakeEd25519>(code, server, first, rng)
    }

    /// As [`Inviter::start`] with another PAKE.
    ///
    /// # Errors
    /// [`PairingError`].
    pub fn start_with<P: Pake>(
        code: &PairingCode,
        server: ServerId,
        first: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<(Self, Vec<u8>), PairingError> {
        let Outer::PakeNew(new) = Outer::decode(first)? else {
            return Err(PairingError::OutOfTurn);
        };
        let identities = PakeIdentities::new(server, code.nameplate());
        let password = code.password();
        let (pake, old) = P::start(Role::Old, password.as_bytes(), &identities, rng);
        let secret = pake.finish(new).map_err(|_| PairingError::WrongCode)?;
        let transcript = Transcript { identities: &identities, new, old: &old };
        let channel = Channel::new(Role::Old, &secret, &transcript, (1, 1));
        let message = Outer::PakeOld(&old, channel.confirmation()).encode();
        Ok((Self { server, state: State::Started(channel) }, message))
    }

    /// Takes the `new` side's next message.
    ///
    /// # Errors
    /// [`PairingError`]; the pairing is then over.
    pub fn receive(&mut self, message: &[u8]) -> Result<InviterEvent, PairingError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Started(mut channel) => {
                let confirmation = match Outer::decode(message)? {
                    Outer::Confirm(confirmation) => confirmation,
                    Outer::Refused => return Err(PairingError::WrongCode),
                    _ => return Err(PairingError::OutOfTurn),
                };
                channel.check(&confirmation)?;
                channel.received();
                self.state = State::Open { channel, offer: None, rounds: 0 };
                Ok(InviterEvent::Confirmed)
            }
            State::Open { mut channel, offer, rounds } => match (channel.open(message)?, offer) {
                (Inner::Answer(answer), Some((account, index))) => {
                    if answer.round.checked_add(1) != Some(rounds) {
                        return Err(PairingError::BadAnswer);
                    }
                    answer
                        .device
                        .verify_co_signature(account, index, &answer.co_signature)
                        .map_err(|_| PairingError::BadAnswer)?;
                    self.state = State::Open { channel, offer: None, rounds };
                    Ok(InviterEvent::Answer(Box::new(answer)))
                }
                (Inner::Stop(reason), _) => Ok(InviterEvent::Stopped(reason)),
                _ => Err(PairingError::OutOfTurn),
            },
            State::Over => Err(PairingError::Over),
        }
    }

    /// Offers the account as it stands; gives the messages to send, in order. The heads travel
    /// with the first offer only.
    ///
    /// # Errors
    /// [`PairingError::OutOfTurn`] before the confirmation or while an offer is unanswered.
    pub fn offer(
        &mut self,
        account: AccountId,
        chain: ChainHead,
        heads: &[AppManifestHead],
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<Vec<u8>>, PairingError> {
        let State::Open { channel, offer: waiting @ None, rounds } = &mut self.state else {
            return Err(PairingError::OutOfTurn);
        };
        let heads = if *rounds == 0 { heads } else { &[] };
        let mut messages = Vec::new();
        let mut chunks = heads.chunks(HEADS_PER_MESSAGE).peekable();
        let mut last = Vec::new();
        while let Some(chunk) = chunks.next() {
            if chunks.peek().is_some() {
                messages.push(channel.seal(&Inner::Heads(chunk.to_vec()), rng));
            } else {
                last = chunk.to_vec();
            }
        }
        let offer = Offer { round: *rounds, account, server: self.server, chain, heads: last };
        messages.push(channel.seal(&Inner::Offer(offer), rng));
        *waiting = Some((account, ChainIndex(chain.index.0.saturating_add(1))));
        *rounds = rounds.saturating_add(1);
        Ok(messages)
    }

    /// Tells that the new device is in the chain, and ends; gives the message to send.
    ///
    /// # Errors
    /// [`PairingError::OutOfTurn`] before an answer came.
    pub fn linked(
        &mut self,
        chain: ChainHead,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, PairingError> {
        let State::Open { channel, offer: None, rounds: 1.. } = &mut self.state else {
            return Err(PairingError::OutOfTurn);
        };
        let message = channel.seal(&Inner::Linked(Linked { chain }), rng);
        self.state = State::Over;
        Ok(message)
    }

    /// Gives up; gives the message to send, if the other side can read one yet.
    pub fn stop(&mut self, reason: StopReason, rng: &mut impl CryptoRng) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Open { mut channel, .. } => Some(channel.seal(&Inner::Stop(reason), rng)),
            State::Started(_) | State::Over => None,
        }
    }
}

impl fmt::Debug for Inviter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Started(_) => "started",
            State::Open { .. } => "open",
            State::Over => "over",
        };
        f.debug_struct("Inviter").field("state", &state).finish_non_exhaustive()
    }
}
