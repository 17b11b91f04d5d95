//! The socket's calls about the account, as verbs and the demo make them.

use std::path::Path;
use std::time::Duration;

use http::Method;
use tidings_client::local::{EventStream, Request};
use tidings_wire::linking::{
    AccountAnswer, AddDevice, CreateAccount, DeviceInfo, DevicesAnswer, Login, LoginEvent, Recover,
    RecoverAnswer, RecoveryKit, RenameDevice, RevokeDevices, Setup,
};

use super::connect::Local;
use super::failure::Failure;

/// A pairing code lives ten minutes; the other computer's person types it in that time.
const PAIRING: Duration = Duration::from_secs(11 * 60);

/// A device that is unlinked may go on writing for a while, which makes the daemon try again.
const REVOKING: Duration = Duration::from_secs(120);

/// What verbs that join an account understand.
#[derive(Debug, Clone, clap::Args)]
pub struct SetupArgs {
    /// The certificate authority that vouches for the server, as a PEM file; without it, those of
    /// the system do.
    #[arg(long, value_name = "FILE")]
    ca: Option<std::path::PathBuf>,
    /// What the other computers call this one; without it, its host name.
    #[arg(long)]
    name: Option<String>,
    /// Where the keys lie; without it, in the desktop's keychain if it answers.
    #[arg(long, value_parser = ["keychain", "file"])]
    keystore: Option<String>,
}

impl SetupArgs {
    /// What the daemon is told.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub fn setup(self) -> Result<Setup, Failure> {
        let authority = self.ca.as_deref().map(authority).transpose()?;
        Ok(Setup { authority, name: self.name, keystore: self.keystore })
    }
}

/// Reads a PEM file.
///
/// # Errors
/// It cannot be read.
pub fn authority(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::io(format_args!("Reading {}", path.display()), &error))
}

impl Local {
    /// Makes an account.
    ///
    /// # Errors
    /// The daemon or the server refuses.
    pub async fn create_account(&self, request: &CreateAccount) -> Result<AccountAnswer, Failure> {
        let call = Request::new(Method::POST, "/v1/account").json(request);
        let call = call.map_err(Failure::unexpected)?.within(Some(Duration::from_secs(120)));
        let reply = self.ask(self.client.request(call)).await?;
        reply.json().map_err(|error| self.failure(error))
    }

    /// Begins to link this computer.
    ///
    /// # Errors
    /// The daemon or the server refuses.
    pub async fn login(&self, request: &Login) -> Result<Linking, Failure> {
        let call = Request::new(Method::POST, "/v1/login").json(request);
        let stream = self.ask(self.client.stream(call.map_err(Failure::unexpected)?)).await?;
        Ok(Linking { stream })
    }

    /// Links the computer that shows this code.
    ///
    /// # Errors
    /// The daemon, the server or the other computer refuses.
    pub async fn add_device(&self, code: &str) -> Result<DeviceInfo, Failure> {
        let call = Request::new(Method::POST, "/v1/devices/add")
            .json(&AddDevice { code: code.to_owned() })
            .map_err(Failure::unexpected)?
            .within(Some(PAIRING));
        let reply = self.ask(self.client.request(call)).await?;
        reply.json().map_err(|error| self.failure(error))
    }

    /// Makes a recovery kit in place of the one before.
    ///
    /// # Errors
    /// The daemon or the server refuses.
    pub async fn recovery_kit(&self) -> Result<RecoveryKit, Failure> {
        let call = Request::new(Method::POST, "/v1/recovery/kit").within(Some(REVOKING));
        let reply = self.ask(self.client.request(call)).await?;
        reply.json().map_err(|error| self.failure(error))
    }

    /// Comes back into an account with its recovery kit.
    ///
    /// # Errors
    /// The daemon or the server refuses.
    pub async fn recover(&self, request: &Recover) -> Result<RecoverAnswer, Failure> {
        let call = Request::new(Method::POST, "/v1/recover").json(request);
        let call = call.map_err(Failure::unexpected)?.within(Some(REVOKING));
        let reply = self.ask(self.client.request(call)).await?;
        reply.json().map_err(|error| self.failure(error))
    }

    /// Unlinks devices by their names or ids.
    ///
    /// # Errors
    /// The daemon or the server refuses.
    pub async fn revoke_devices(&self, names: &[String]) -> Result<DevicesAnswer, Failure> {
        let call = Request::new(Method::POST, "/v1/devices/revoke")
            .json(&RevokeDevices { devices: names.to_vec() })
            .map_err(Failure::unexpected)?
            .within(Some(REVOKING));
        let reply = self.ask(self.client.request(call)).await?;
        reply.json().map_err(|error| self.failure(error))
    }

    /// Gives a device another name.
    ///
    /// # Errors
    /// The daemon or the server refuses.
    pub async fn rename_device(&self, device: &str, name: &str) -> Result<DeviceInfo, Failure> {
        let request = RenameDevice { device: device.to_owned(), name: name.to_owned() };
        let call = Request::new(Method::POST, "/v1/devices/rename").json(&request);
        let call = call.map_err(Failure::unexpected)?.within(Some(Duration::from_secs(120)));
        let reply = self.ask(self.client.request(call)).await?;
        reply.json().map_err(|error| self.failure(error))
    }

    /// Every device of the account.
    ///
    /// # Errors
    /// The daemon refuses.
    pub async fn devices(&self) -> Result<DevicesAnswer, Failure> {
        let reply = self.ask(self.client.request(Request::new(Method::GET, "/v1/devices"))).await?;
        reply.json().map_err(|error| self.failure(error))
    }

    /// This computer's account.
    ///
    /// # Errors
    /// There is none, or the daemon refuses.
    pub async fn account(&self) -> Result<AccountAnswer, Failure> {
        let reply = self.ask(self.client.request(Request::new(Method::GET, "/v1/account"))).await?;
        reply.json().map_err(|error| self.failure(error))
    }
}

/// A computer that is being linked.
#[derive(Debug)]
pub struct Linking {
    stream: EventStream,
}

impl Linking {
    /// What happens next; `Paired` is the last.
    ///
    /// # Errors
    /// Linking did not work, or the daemon went away.
    pub async fn next(&mut self) -> Result<LoginEvent, Failure> {
        loop {
            let event = self.stream.next().await.map_err(Failure::lost)?;
            let event = event.ok_or_else(|| Failure::lost("it ended the linking"))?;
            match LoginEvent::read(&event.name, &event.data).map_err(Failure::unexpected)? {
                Some(LoginEvent::Error(problem)) => return Err(Failure::problem(&problem)),
                Some(event) => return Ok(event),
                None => {}
            }
        }
    }
}
