//! Who listens to what, and why a stream ends.

use std::sync::Arc;

use tidings_proof::Replica;
use tidings_wire::{AccountId, DeviceId, Incarnation};

use crate::clock::Millis;

/// The name of a channel: an app id, `_account`, or [`ALL`].
pub type Channel = Arc<str>;

/// The channel of a stream that hears every channel of its account.
pub const ALL: &str = "*";

/// Who listens.
#[derive(Debug, Clone)]
pub struct Listener {
    /// The account.
    pub account: AccountId,
    /// The device; what it changes itself is left out.
    pub device: DeviceId,
    /// The replica, if it named itself: then only what this replica changes is left out.
    pub incarnation: Option<Incarnation>,
    /// To what.
    pub channel: Channel,
    /// The end of the token, and so of the stream.
    pub expires: Millis,
}

impl Listener {
    /// Whether it was this replica that changed something.
    pub(super) fn is(&self, pusher: Option<Replica>) -> bool {
        pusher.is_some_and(|pusher| {
            let same = |own: Incarnation| own == pusher.incarnation;
            self.device == pusher.device && self.incarnation.is_none_or(same)
        })
    }
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The token has expired.
    Expired,
    /// The device was revoked.
    Revoked,
    /// The account is gone or suspended.
    AccountGone,
    /// The server stops.
    Closing,
}
