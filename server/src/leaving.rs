//! Devices that somebody is about to unlink.
//!
//! A revocation names the last manifests of the devices that it unlinks, and ends in `cut_moved` if
//! one of them said something new meanwhile. A device that does nothing else could put off its
//! unlinking for ever, so what it sends is refused for a while once that has happened. Each process
//! remembers for itself: a hint of fairness, not a right.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidings_wire::{AccountId, Code, DeviceId};

use crate::failure::{Answer, Failure};

/// For how long a device that is about to be unlinked is refused.
pub const REFUSED: Duration = Duration::from_secs(30);

/// The devices that are refused, each until its time.
#[derive(Debug, Default)]
pub struct Leaving {
    until: Mutex<HashMap<(AccountId, DeviceId), Instant>>,
}

impl Leaving {
    /// Notes that a good revocation of these devices ended in `cut_moved`.
    pub fn note(&self, account: AccountId, devices: &BTreeSet<DeviceId>) {
        let now = Instant::now();
        let mut until = self.lock();
        until.retain(|_, until| *until > now);
        for device in devices {
            until.insert((account, *device), now + REFUSED);
        }
    }

    /// Refuses a device that is about to be unlinked.
    ///
    /// # Errors
    /// 429 `rate.limited` with the seconds to wait.
    pub fn check(&self, account: AccountId, device: DeviceId) -> Answer<()> {
        let Some(until) = self.lock().get(&(account, device)).copied() else { return Ok(()) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let message = "another device is about to unlink this one; nothing was changed";
        let seconds = left.as_secs().saturating_add(1);
        Err(Failure::new(Code::RateLimited, message).retry_after(seconds))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(AccountId, DeviceId), Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_devices_of_the_account_are_refused() {
        let leaving = Leaving::default();
        let (account, other) = (AccountId([1; 16]), AccountId([2; 16]));
        let (device, stays) = (DeviceId([3; 16]), DeviceId([4; 16]));
        leaving.note(account, &BTreeSet::from([device]));
        assert_eq!(leaving.check(account, device).unwrap_err().code(), Code::RateLimited);
        leaving.check(account, stays).unwrap();
        leaving.check(other, device).unwrap();
    }
}
