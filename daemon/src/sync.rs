//! The sync side: carries out what the engine orders, and the flows that make and link accounts.
//!
//! [`Sync`] is what the API holds; [`Driver`] is the one task behind it. The engine decides,
//! the vault seals and opens, the replica stores; what is here joins them and talks to the server.

mod account;
mod anchor;
mod devices;
mod driver;
mod freeze;
mod gate;
mod page;
mod pairing;
mod quarantine;
mod rebuild;
mod records;
mod recovery;
mod remote;
mod renew;
mod report;
mod settings;
mod sleep;
mod start;
mod tasks;
#[cfg(test)]
mod tests;

pub use self::account::{LinkError, SetupRequest};
pub use self::driver::Driver;
pub use self::pairing::Progress;
pub use self::settings::Settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidings_wire::AppId;
use tidings_wire::linking::{AccountAnswer, DeviceInfo, Recover, RecoverAnswer, RecoveryKit};
use tokio::sync::{Mutex, Notify};

use self::gate::Gate;
use crate::clock::Clock;
use crate::replica::Replica;
use crate::status::Status;
use crate::vault::Vault;

/// The sync side's handle. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Sync {
    shared: Arc<Shared>,
}

/// What the handle and the driver share.
struct Shared {
    replica: Replica,
    vault: Vault,
    status: Status,
    clock: Clock,
    settings: Settings,
    gate: Arc<Gate>,
    /// There is an account now that was not there before, or another than before.
    founded: Notify,
    /// The chain was changed from here: read it, and what hangs on it, again.
    chain_changed: Notify,
    /// Why the server cannot be used now, in words.
    trouble: std::sync::Mutex<Option<String>>,
    /// Why it does not take what apps have to send, in its own words.
    refusals: std::sync::Mutex<BTreeMap<AppId, String>>,
    /// One freezing at a time, of whatever app.
    freezing: Mutex<()>,
    /// One change of the account at a time.
    changing: Mutex<()>,
}

impl Sync {
    /// The sync side over an open replica, and the driver to run.
    pub fn new(
        replica: Replica,
        vault: Vault,
        status: Status,
        settings: Settings,
    ) -> (Self, Driver) {
        let clock = replica.clock().clone();
        let gate = Arc::new(Gate::new(vault.clone(), clock.clone()));
        replica.set_freeze_hook(Gate::hook(&gate));
        let shared = Arc::new(Shared {
            replica,
            vault,
            status,
            clock,
            settings,
            gate,
            founded: Notify::new(),
            chain_changed: Notify::new(),
            trouble: std::sync::Mutex::new(None),
            refusals: std::sync::Mutex::default(),
            freezing: Mutex::new(()),
            changing: Mutex::new(()),
        });
        (Self { shared: Arc::clone(&shared) }, Driver::new(shared))
    }

    /// The account as this computer knows it; none before there is one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn account(&self) -> Result<Option<AccountAnswer>, LinkError> {
        let record = self.shared.vault.account().await?;
        Ok(record.filter(|record| !record.joining).map(|record| account::answer(&record)))
    }

    /// Makes an account, with this computer as its first device.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn create_account(&self, request: SetupRequest) -> Result<AccountAnswer, LinkError> {
        account::create(&self.shared, request).await
    }

    /// Links this computer to an account; says through `progress` what happens.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn login(
        &self,
        request: SetupRequest,
        progress: Progress,
    ) -> Result<AccountAnswer, LinkError> {
        pairing::login(&self.shared, request, progress).await
    }

    /// Links the computer that shows a code.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn add_device(&self, code: &str) -> Result<DeviceInfo, LinkError> {
        pairing::add_device(&self.shared, code).await
    }

    /// Makes a recovery kit in place of the one before.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn make_kit(&self) -> Result<RecoveryKit, LinkError> {
        recovery::make_kit(&self.shared).await
    }

    /// Comes back into an account with the words of its recovery kit.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn recover(&self, asked: Recover) -> Result<RecoverAnswer, LinkError> {
        recovery::recover(&self.shared, asked).await
    }

    /// Unlinks devices, by their names or ids.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn revoke_devices(&self, devices: &[String]) -> Result<Vec<DeviceInfo>, LinkError> {
        devices::revoke(&self.shared, devices).await
    }

    /// Gives a device another name.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn rename_device(&self, device: &str, name: &str) -> Result<DeviceInfo, LinkError> {
        devices::rename(&self.shared, device, name).await
    }

    /// Every device that ever was in the account.
    ///
    /// # Errors
    /// There is no account, or its keys are locked.
    pub fn devices(&self) -> Result<Vec<DeviceInfo>, LinkError> {
        account::devices(&self.shared)
    }
}
