//! Folded device chains, remembered per account and brought up to date from the store.
//!
//! Folding verifies every signature from the genesis on, so it is done once and then only for
//! what was appended. What the store says is the head decides; memory only saves work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings_proof::{Chain, ChainError, SignedEntry};
use tidings_wire::{AccountId, limits};

use crate::failure::{Answer, Failure};
use crate::store::{AccountRow, SharedStore};

/// Most bytes of chains that are remembered; then all are folded anew as they come.
const REMEMBERED: usize = 128 << 20;

/// The chains of the accounts that called lately.
pub struct Chains {
    store: SharedStore,
    folded: Mutex<Folded>,
}

#[derive(Default)]
struct Folded {
    chains: HashMap<AccountId, Arc<Chain>>,
    /// About how many bytes they take.
    bytes: usize,
}

impl Folded {
    fn remove(&mut self, account: AccountId) {
        if let Some(chain) = self.chains.remove(&account) {
            self.bytes = self.bytes.saturating_sub(weight(&chain));
        }
    }
}

/// About how many bytes a chain takes: devices with their keys, hashes of entries, epochs.
fn weight(chain: &Chain) -> usize {
    let entries = usize::try_from(chain.next_index().0).unwrap_or(usize::MAX);
    let devices = chain.devices().len().saturating_mul(1_500);
    entries.saturating_mul(32) + devices + chain.epochs().len().saturating_mul(150) + 500
}

impl Chains {
    /// Nothing is remembered yet.
    pub fn new(store: SharedStore) -> Self {
        Self { store, folded: Mutex::default() }
    }

    /// The chain of an account as the store has it now, and the account's state.
    ///
    /// # Errors
    /// When there is no such account, or the store fails.
    pub async fn current(&self, account: AccountId) -> Answer<(Arc<Chain>, AccountRow)> {
        let row = self.store.account(account).await?;
        let known = self.lock().chains.get(&account).cloned();
        if let Some(chain) = known.as_ref().filter(|chain| chain.head() == row.head) {
            return Ok((chain.clone(), row));
        }
        let chain = Arc::new(self.fold(account, known).await?);
        // The chain may have grown since the row was read; what was folded is the later truth.
        let row = AccountRow { head: chain.head(), epoch: chain.newest_epoch(), ..row };
        self.remember(chain.clone());
        Ok((chain, row))
    }

    /// Remembers a chain that was just extended and stored.
    pub fn remember(&self, chain: Arc<Chain>) {
        let mut folded = self.lock();
        folded.remove(chain.account());
        let weight = weight(&chain);
        if folded.bytes.saturating_add(weight) > REMEMBERED {
            *folded = Folded::default();
        }
        folded.bytes += weight;
        folded.chains.insert(chain.account(), chain);
    }

    /// Forgets an account.
    pub fn forget(&self, account: AccountId) {
        self.lock().remove(account);
    }

    async fn fold(&self, account: AccountId, known: Option<Arc<Chain>>) -> Answer<Chain> {
        let mut chain = known.map(Arc::unwrap_or_clone);
        loop {
            let from = chain.as_ref().map_or(0, |chain| chain.next_index().0);
            let page = self.store.chain(account, from, limits::CHAIN_PAGE).await?;
            if page.entries.is_empty() {
                return match chain {
                    Some(chain) if chain.head() == page.head => Ok(chain),
                    _ => Err(Failure::internal(format!("the chain of {account} does not fold"))),
                };
            }
            let folding =
                tokio::task::spawn_blocking(move || extend(account, chain, &page.entries));
            let folded = folding.await.map_err(Failure::internal)?;
            chain = Some(folded.map_err(|error| {
                Failure::internal(format!("the stored chain of {account}: {error}"))
            })?);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Folded> {
        self.folded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn extend(
    account: AccountId,
    chain: Option<Chain>,
    entries: &[Vec<u8>],
) -> Result<Chain, ChainError> {
    let entries: Result<Vec<_>, _> =
        entries.iter().map(|entry| SignedEntry::decode(entry)).collect();
    let entries = entries?;
    match chain {
        None => Chain::fold(account, &entries),
        Some(mut chain) => {
            entries.iter().try_for_each(|entry| chain.extend(entry))?;
            Ok(chain)
        }
    }
}
