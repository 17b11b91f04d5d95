//! Sign-in challenges: random, for one device, usable once, for a minute; at most so many at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidings_proof::signin::CHALLENGE_LEN;
use tidings_wire::{AccountId, DeviceId};
use tokio::time::Instant;

/// A challenge's nonce.
pub type Nonce = [u8; CHALLENGE_LEN];

/// The open challenges.
#[derive(Debug)]
pub struct Challenges {
    life: Duration,
    capacity: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    by_nonce: HashMap<Nonce, (AccountId, DeviceId, u64, Instant)>,
    /// In the order in which they were opened, which is the order in which they end.
    order: BTreeMap<u64, Nonce>,
    next: u64,
}

impl Challenges {
    /// At most `capacity` challenges, each for `life`.
    pub fn new(life: Duration, capacity: usize) -> Self {
        Self { life, capacity, open: Mutex::default() }
    }

    /// Opens a challenge. The oldest makes room where there are too many: who floods the table
    /// can only make others try again.
    pub fn open(&self, account: AccountId, device: DeviceId, nonce: Nonce, now: Instant) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.drop_ended(now);
        while open.by_nonce.len() >= self.capacity {
            let Some((_, oldest)) = open.order.pop_first() else { break };
            open.by_nonce.remove(&oldest);
        }
        let number = open.next;
        open.next += 1;
        open.order.insert(number, nonce);
        open.by_nonce.insert(nonce, (account, device, number, now + self.life));
    }

    /// Uses a challenge up. `true` when it was open and for this device.
    pub fn take(&self, account: AccountId, device: DeviceId, nonce: &Nonce, now: Instant) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((for_account, for_device, number, end)) = open.by_nonce.remove(nonce) else {
            return false;
        };
        open.order.remove(&number);
        for_account == account && for_device == device && now < end
    }
}

impl Open {
    fn drop_ended(&mut self, now: Instant) {
        while let Some(entry) = self.order.first_entry() {
            let ended = self.by_nonce.get(entry.get()).is_none_or(|(.., end)| *end <= now);
            if !ended {
                break;
            }
            let nonce = entry.remove();
            self.by_nonce.remove(&nonce);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: AccountId = AccountId([1; 16]);
    const DEVICE: DeviceId = DeviceId([2; 16]);

    #[tokio::test(start_paused = true)]
    async fn a_challenge_counts_once_in_time_for_its_device() {
        let life = Duration::from_secs(60);
        let challenges = Challenges::new(life, 8);
        let start = Instant::now();
        challenges.open(ACCOUNT, DEVICE, [1; 32], start);
        assert!(challenges.take(ACCOUNT, DEVICE, &[1; 32], start));
        assert!(!challenges.take(ACCOUNT, DEVICE, &[1; 32], start), "used twice");
        challenges.open(ACCOUNT, DEVICE, [2; 32], start);
        assert!(!challenges.take(ACCOUNT, DeviceId([3; 16]), &[2; 32], start), "another device");
        assert!(!challenges.take(ACCOUNT, DEVICE, &[2; 32], start), "a wrong guess uses it up");
        challenges.open(ACCOUNT, DEVICE, [3; 32], start);
        assert!(!challenges.take(ACCOUNT, DEVICE, &[3; 32], start + life), "too late");
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_is_bounded_and_cleans_itself() {
        let challenges = Challenges::new(Duration::from_secs(60), 4);
        let start = Instant::now();
        for number in 0..100u8 {
            challenges.open(ACCOUNT, DEVICE, [number; 32], start);
        }
        assert_eq!(challenges.open.lock().unwrap().by_nonce.len(), 4);
        assert!(challenges.take(ACCOUNT, DEVICE, &[99; 32], start));
        assert!(!challenges.take(ACCOUNT, DEVICE, &[1; 32], start));
        let later = start + Duration::from_secs(120);
        challenges.open(ACCOUNT, DEVICE, [200; 32], later);
        assert_eq!(challenges.open.lock().unwrap().by_nonce.len(), 1);
    }
}
