//! The gate through which a local write may be frozen in its own transaction, so that an idle
//! device pays one disk sync and not two.
//!
//! The driver opens it for an app when nothing of it is frozen, the stream stands and the chain is
//! current. The hook runs on the committer's thread and takes it; the driver learns of it when the
//! commit wakes it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings_engine::Testimony;
use tidings_wire::{AppId, ManifestNumber};

use super::freeze::Freezer;
use crate::clock::Clock;
use crate::replica::{FreezeHook, Replica, restamp};
use crate::store::{StoreError, Txn};
use crate::vault::Vault;

/// The gate of every app.
pub(super) struct Gate {
    vault: Vault,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Apps whose next local write may be frozen at once, with what its manifest says of others.
    open: BTreeMap<AppId, Testimony>,
    /// Apps that something was written in since the driver last asked, with the manifest's number
    /// if it was frozen.
    written: BTreeMap<AppId, Option<ManifestNumber>>,
}

/// Most bytes of the outbox that are frozen inside a local write's transaction: sealing more would
/// hold up other writes.
const MOST_BYTES: usize = 256 << 10;

impl Gate {
    pub(super) fn new(vault: Vault, clock: Clock) -> Self {
        Self { vault, clock, state: Mutex::default() }
    }

    /// What the replica calls in the transaction of every local write.
    pub(super) fn hook(gate: &Arc<Self>) -> FreezeHook {
        let gate = Arc::clone(gate);
        Arc::new(move |txn, app| gate.written(txn, app))
    }

    /// Opens the gate of these apps and closes it for all others.
    pub(super) fn open(&self, apps: BTreeMap<AppId, Testimony>) {
        self.lock().open = apps;
    }

    /// Apps that something was written in since the last time.
    pub(super) fn take_written(&self) -> BTreeMap<AppId, Option<ManifestNumber>> {
        std::mem::take(&mut self.lock().written)
    }

    fn written(&self, txn: &mut Txn<'_>, app: &AppId) -> Result<(), StoreError> {
        let testimony = self.lock().open.remove(app);
        let frozen = match testimony {
            Some(testimony) => self.freeze(txn, app, &testimony)?,
            None => None,
        };
        let mut state = self.lock();
        let noted = state.written.entry(app.clone()).or_insert(None);
        *noted = (*noted).max(frozen);
        Ok(())
    }

    /// Freezes what is in the outbox. That it cannot be sealed now is no reason to refuse the
    /// write: the driver tries again and says why.
    fn freeze(
        &self,
        txn: &mut Txn<'_>,
        app: &AppId,
        testimony: &Testimony,
    ) -> Result<Option<ManifestNumber>, StoreError> {
        let Some(unlocked) = self.vault.unlocked() else { return Ok(None) };
        if self.clock.server_offset().is_none() {
            return Ok(None);
        }
        let replica = Replica::identity(txn)?;
        // Stamps far ahead are given anew first, which touches more than this write.
        if restamp::is_ahead(&replica, self.clock.physical()) {
            return Ok(None);
        }
        let incarnation = replica.incarnation;
        let freezer =
            Freezer { unlocked: &unlocked, app, incarnation, testimony, now_ms: self.clock.now() };
        match freezer.freeze(txn, MOST_BYTES) {
            Ok(Some(frozen)) => frozen.store(txn, app, incarnation),
            Ok(None) | Err(_) => Ok(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
