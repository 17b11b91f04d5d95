//! The new computer's end of a pairing.

use std::fmt;

use tidings_proof::manifest::AppManifestHead;
use tidings_wire::{ChainIndex, ServerId};

use crate::entries::NAME;
use crate::keys::DeviceKeys;
use crate::pairing::PairingError;
use crate::pairing::channel::{Channel, Transcript};
use crate::pairing::code::PairingCode;
use crate::pairing::message::{Answer, Inner, Linked, Offer, Outer, StopReason};
use crate::pairing::pake::{Pake, PakeIdentities, Role, SpakeEd25519};
use crate::random::CryptoRng;

/// Most manifest heads that an offer may bring: 256 devices in 256 apps.
const HEADS: usize = 1 << 16;

/// The joining end: [`Joiner::start`], then [`Joiner::receive`] for each message of the `old` side
/// in order, and [`Joiner::answer`] to each offer, until [`JoinerEvent::Linked`].
///
/// After an error it is over for good, and so is the code.
pub struct Joiner<P = SpakeEd25519> {
    server: ServerId,
    identities: PakeIdentities,
    state: State<P>,
}

#[expect(clippy::large_enum_variant, reason = "there is one of it per pairing")]
enum State<P> {
    /// Waits for the other PAKE message.
    Started { pake: P, message: Vec<u8> },
    /// Both have confirmed.
    Open { channel: Channel, heads: Vec<AppManifestHead>, offer: Option<Offer>, rounds: u32 },
    /// It failed or ended.
    Over,
}

/// What a message meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinerEvent {
    /// The codes were the same: send this message (index 1), then wait for the offer.
    Confirmed(Vec<u8>),
    /// Nothing to do: more messages belong to the offer.
    Waiting,
    /// The account that it may join: [`Joiner::answer`]. After a first answer: the chain had
    /// moved, answer again.
    Offer(Offer),
    /// This device is in the chain.
    Linked(Linked),
    /// The other side gave up.
    Stopped(StopReason),
}

impl Joiner {
    /// Starts with a code made for a mailbox of this server; gives the message of index 0.
    pub fn start(
        code: &PairingCode,
        server: ServerId,
        rng: &mut impl CryptoRng,
    ) -> (Self, Vec<u8>) {
        Self::start_with(code, server, rng)
    }
}

impl<P: Pake> Joiner<P> {
    /// As [`Joiner::start`] with another PAKE.
    pub fn start_with(
        code: &PairingCode,
        server: ServerId,
        rng: &mut impl CryptoRng,
    ) -> (Self, Vec<u8>) {
        let identities = PakeIdentities::new(server, code.nameplate());
        let password = code.password();
        let (pake, message) = P::start(Role::New, password.as_bytes(), &identities, rng);
        let outer = Outer::PakeNew(&message).encode();
        (Self { server, identities, state: State::Started { pake, message } }, outer)
    }

    /// Takes the `old` side's next message.
    ///
    /// # Errors
    /// [`PairingError`]; the pairing is then over.
    pub fn receive(&mut self, message: &[u8]) -> Result<JoinerEvent, PairingError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Started { pake, message: own } => self.confirm(pake, &own, message),
            State::Open { mut channel, mut heads, offer, rounds } => {
                let event = match channel.open(message)? {
                    Inner::Heads(more) if rounds == 0 && offer.is_none() => {
                        heads.extend(more);
                        if heads.len() > HEADS {
                            return Err(PairingError::OutOfTurn);
                        }
                        JoinerEvent::Waiting
                    }
                    Inner::Offer(new) if new.round == rounds && offer.is_none() => {
                        return self.take_offer(channel, heads, new);
                    }
                    Inner::Linked(linked) if rounds > 0 && offer.is_none() => {
                        return Ok(JoinerEvent::Linked(linked));
                    }
                    Inner::Stop(reason) => return Ok(JoinerEvent::Stopped(reason)),
                    _ => return Err(PairingError::OutOfTurn),
                };
                self.state = State::Open { channel, heads, offer, rounds };
                Ok(event)
            }
            State::Over => Err(PairingError::Over),
        }
    }

    fn confirm(
        &mut self,
        pake: P,
        own: &[u8],
        message: &[u8],
    ) -> Result<JoinerEvent, PairingError> {
        let (other, confirmation) = match Outer::decode(message)? {
            Outer::PakeOld(other, confirmation) => (other, confirmation),
            Outer::Refused => return Err(PairingError::WrongCode),
            _ => return Err(PairingError::OutOfTurn),
        };
        let secret = pake.finish(other).map_err(|_| PairingError::WrongCode)?;
        let transcript = Transcript { identities: &self.identities, new: own, old: other };
        let mut channel = Channel::new(Role::New, &secret, &transcript, (1, 1));
        channel.check(&confirmation)?;
        let answer = Outer::Confirm(channel.confirmation()).encode();
        channel.sent();
        self.state = State::Open { channel, heads: Vec::new(), offer: None, rounds: 0 };
        Ok(JoinerEvent::Confirmed(answer))
    }

    fn take_offer(
        &mut self,
        channel: Channel,
        mut heads: Vec<AppManifestHead>,
        mut offer: Offer,
    ) -> Result<JoinerEvent, PairingError> {
        if offer.server != self.server {
            return Err(PairingError::WrongServer);
        }
        let rounds = offer.round;
        heads.append(&mut offer.heads);
        offer.heads = heads.clone();
        self.state = State::Open { channel, heads, offer: Some(offer.clone()), rounds };
        Ok(JoinerEvent::Offer(offer))
    }

    /// Answers the offer with this device's keys and name; gives the message to send.
    ///
    /// # Errors
    /// [`PairingError::OutOfTurn`] without an offer; a name too long changes nothing.
    pub fn answer(
        &mut self,
        keys: &DeviceKeys,
        name: &str,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, PairingError> {
        if name.len() > NAME {
            return Err(PairingError::NameTooLong);
        }
        let State::Open { channel, offer, rounds, .. } = &mut self.state else {
            return Err(PairingError::Over);
        };
        let offer = offer.take().ok_or(PairingError::OutOfTurn)?;
        *rounds = rounds.saturating_add(1);
        let index = ChainIndex(offer.chain.index.0.saturating_add(1));
        let answer = Answer {
            round: offer.round,
            device: keys.public().clone(),
            name: name.to_owned(),
            co_signature: keys.co_sign(offer.account, index),
        };
        Ok(channel.seal(&Inner::Answer(answer), rng))
    }

    /// Gives up; gives the message to send, if the other side can read one yet.
    pub fn stop(&mut self, reason: StopReason, rng: &mut impl CryptoRng) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Open { mut channel, .. } => Some(channel.seal(&Inner::Stop(reason), rng)),
            State::Started { .. } | State::Over => None,
        }
    }
}

impl<P> fmt::Debug for Joiner<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Started { .. } => "started",
            State::Open { .. } => "open",
            State::Over => "over",
        };
        f.debug_struct("Joiner").field("state", &state).finish_non_exhaustive()
    }
}
