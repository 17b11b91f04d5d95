//! The bytes of a stream: all that a reader is ever sent.

use std::time::Duration;

use bytes::Bytes;
use tidings_wire::sse::{CHANGED, Frame};

use super::listener::{ALL, End};
use crate::random;

/// The first frame: bytes at once, so that proxies flush and the reader knows it is through.
pub(crate) fn hello(retry: Duration) -> Bytes {
    Frame::new().retry(random::between(retry, retry * 2)).comment("connected").finish().into()
}

/// What has changed: nothing is said on a stream of one channel, the channel's name on one of all.
pub(super) fn changed(listened: &str, channel: &str) -> Bytes {
    if listened == ALL { event("changed", channel) } else { Bytes::from_static(CHANGED) }
}

/// The last frame. One that closes says when to come back, each stream another time below
/// `retry`, so that not all return at once.
pub(super) fn ending(end: End, retry: Duration) -> Bytes {
    match end {
        // Signing in again is how a device learns what became of the account.
        End::Expired | End::AccountGone => reauth("token_expired"),
        End::Revoked => reauth("device_revoked"),
        End::Closing => {
            let frame = Frame::new().retry(random::between(retry / 10, retry));
            frame.event(Some("closing"), None, "{}").map_or_else(|_| Bytes::new(), finish)
        }
    }
}

fn reauth(reason: &str) -> Bytes {
    event("reauth", &format!(r#"{{"reason":"{reason}"}}"#))
}

/// An event; names and data here never hold a line break.
fn event(name: &str, data: &str) -> Bytes {
    Frame::new().event(Some(name), None, data).map_or_else(|_| Bytes::new(), finish)
}

fn finish(frame: Frame) -> Bytes {
    frame.finish().into()
}
