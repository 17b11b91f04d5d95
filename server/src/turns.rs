//! How many pulls of one account are answered at a time: each holds a page in memory until its
//! reader has taken it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings_wire::{AccountId, Code};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, timeout};

use crate::failure::{Answer, Failure};

/// Longest wait for a turn.
const WAIT: Duration = Duration::from_secs(20);

/// The turns of every account.
#[derive(Debug)]
pub struct Turns {
    most: usize,
    taken: Mutex<HashMap<AccountId, Arc<Semaphore>>>,
}

/// A turn; ends when dropped.
#[derive(Debug)]
pub struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Turns {
    /// `most` at a time for each account.
    pub fn new(most: usize) -> Self {
        Self { most, taken: Mutex::default() }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// 429 when the account's own pulls take too long.
    pub async fn wait(&self, account: AccountId) -> Answer<Turn> {
        let turns = {
            let mut taken = self.lock();
            taken.entry(account).or_insert_with(|| Arc::new(Semaphore::new(self.most))).clone()
        };
        match timeout(WAIT, turns.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Turn { _permit: permit }),
            _ => {
                let message = "the account's devices are pulling too much at once";
                Err(Failure::new(Code::RateLimited, message).retry_after(5))
            }
        }
    }

    /// Forgets accounts that are not pulling. To be called about every minute.
    pub fn tidy(&self) {
        self.lock().retain(|_, turns| Arc::strong_count(turns) > 1);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, Arc<Semaphore>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_account_waits_for_itself_and_for_nobody_else() {
        let turns = Turns::new(1);
        let (one, two) = (AccountId([1; 16]), AccountId([2; 16]));
        let first = turns.wait(one).await.unwrap();
        turns.wait(two).await.unwrap();
        assert_eq!(turns.wait(one).await.unwrap_err().code(), Code::RateLimited);
        turns.tidy();
        assert_eq!(turns.lock().len(), 1);
        drop(first);
        turns.wait(one).await.unwrap();
        turns.tidy();
        assert!(turns.lock().is_empty());
    }
}
