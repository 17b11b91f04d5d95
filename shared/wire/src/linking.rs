//! The socket's calls about the account: creating it, linking computers, listing them
//! (docs/apps.md). Only the owner's token may make them.

use serde::{Deserialize, Serialize};

use crate::ids::{AccountId, DeviceId, ServerId};

/// `POST /v1/account`: makes an account on a server, with this computer as its first device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateAccount {
    /// The server's URL.
    pub url: String,
    /// The invite code, where the server asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invite: Option<String>,
    /// Where and as what this computer joins.
    #[serde(flatten)]
    pub setup: Setup,
}

/// `POST /v1/login`: links this computer to an account. The answer is a stream of
/// [`LoginEvent`]s.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Login {
    /// The server's URL.
    pub url: String,
    /// Where and as what this computer joins.
    #[serde(flatten)]
    pub setup: Setup,
}

/// What a person may choose when this computer joins an account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Setup {
    /// The one certificate authority that vouches for the server, as PEM text; without it those
    /// of the system do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// What the other computers call this one, at most 128 bytes; by default its host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the keys lie: `keychain` or `file`; by default the keychain if one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystore: Option<String>,
}

/// `GET /v1/account`, and the answer to account creation and linking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountAnswer {
    /// The account.
    pub account: AccountId,
    /// This computer in it.
    pub device: DeviceId,
    /// What this computer is called.
    pub name: String,
    /// The server's URL.
    pub url: String,
    /// The server that was pinned.
    pub server: ServerId,
    /// Where the keys lie: `keychain` or `file`.
    pub keystore: String,
}

/// One event of the stream that answers `POST /v1/login`; the event's name is the tag.
#[derive(Debug, Clone, PartialEq)]
pub enum LoginEvent {
    /// `code`: to be typed on a linked computer.
    Code(PairingCodeShown),
    /// `waiting`: what happens now, in one sentence.
    Waiting(LoginStep),
    /// `paired`: done. The stream ends.
    Paired(AccountAnswer),
    /// `error`: it did not work. The stream ends.
    Error(crate::Problem),
}

impl LoginEvent {
    /// The event's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Code(_) => "code",
            Self::Waiting(_) => "waiting",
            Self::Paired(_) => "paired",
            Self::Error(_) => "error",
        }
    }

    /// The event's data.
    ///
    /// # Errors
    /// None that these shapes can have.
    pub fn data(&self) -> Result<String, serde_json::Error> {
        match self {
            Self::Code(data) => serde_json::to_string(data),
            Self::Waiting(data) => serde_json::to_string(data),
            Self::Paired(data) => serde_json::to_string(data),
            Self::Error(data) => serde_json::to_string(data),
        }
    }

    /// Reads an event; none if this version does not know its name.
    ///
    /// # Errors
    /// The data is not what the name says.
    pub fn read(name: &str, data: &str) -> Result<Option<Self>, serde_json::Error> {
        Ok(Some(match name {
            "code" => Self::Code(serde_json::from_str(data)?),
            "waiting" => Self::Waiting(serde_json::from_str(data)?),
            "paired" => Self::Paired(serde_json::from_str(data)?),
            "error" => Self::Error(serde_json::from_str(data)?),
            _ => return Ok(None),
        }))
    }
}

/// A pairing code to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PairingCodeShown {
    /// The code, as `4821-amused-violin-tunnel`.
    pub code: String,
    /// When it goes, in UTC.
    pub expires_at: String,
}

/// How far linking is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginStep {
    /// What happens now, in one sentence.
    pub message: String,
}

/// `POST /v1/devices/add`: links the computer that shows this code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddDevice {
    /// The code as the person typed it.
    pub code: String,
}

/// `POST /v1/devices/revoke`: unlinks devices, all at once. The answer is a [`DevicesAnswer`] with
/// those that were unlinked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokeDevices {
    /// Their names or ids.
    pub devices: Vec<String>,
}

/// `POST /v1/devices/rename`: gives a device another name. The answer is its [`DeviceInfo`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RenameDevice {
    /// Its name or id.
    pub device: String,
    /// The new name, at most 128 bytes.
    pub name: String,
}

/// `POST /v1/recovery/kit`: the answer is a [`RecoveryKit`]; one that was made before does not
/// work any more then.
///
/// What a person needs to come back after every computer is lost. The words are the key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryKit {
    /// The account.
    pub account: AccountId,
    /// The server's URL.
    pub url: String,
    /// How many entries the account's device chain had when the kit was made: a server that shows
    /// fewer hides something.
    pub entries: u64,
    /// The twelve words, with a space between them.
    pub words: String,
}

impl std::fmt::Debug for RecoveryKit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut kit = f.debug_struct("RecoveryKit");
        kit.field("account", &self.account).field("url", &self.url);
        kit.field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// `POST /v1/recover`: comes back into an account with the words of its recovery kit. The answer is
/// a [`RecoverAnswer`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recover {
    /// The server's URL.
    pub url: String,
    /// The account that the kit names.
    pub account: AccountId,
    /// The twelve words as the person typed them.
    pub words: String,
    /// The number of entries that the kit names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Where and as what this computer joins.
    #[serde(flatten)]
    pub setup: Setup,
}

impl std::fmt::Debug for Recover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut recover = f.debug_struct("Recover");
        recover.field("url", &self.url).field("account", &self.account).finish_non_exhaustive()
    }
}

/// The answer to `POST /v1/recover`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoverAnswer {
    /// The account, with this computer in it.
    pub account: AccountAnswer,
    /// The kit that replaces the one that was used; none if it could not be made, and then the
    /// words that were used still work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kit: Option<RecoveryKit>,
    /// Why there is no new kit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kit_missing: Option<String>,
    /// Other computers that are still linked: whichever is lost should be unlinked.
    pub others: Vec<DeviceInfo>,
    /// The server shows an older list of computers than the kit: it hides something.
    pub older: bool,
}

/// `GET /v1/devices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DevicesAnswer {
    /// Every device that ever was in the account, in the order of their linking.
    pub devices: Vec<DeviceInfo>,
}

/// One device; the answer to `POST /v1/devices/add` is the new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceInfo {
    /// The device.
    pub id: DeviceId,
    /// Its name, where somebody gave it one that this computer can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is.
    pub kind: DeviceRole,
    /// Whether it is this computer.
    pub this: bool,
    /// Whether it still belongs to the account.
    pub active: bool,
}

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceRole {
    /// A computer.
    Computer,
    /// A recovery kit on paper.
    Paper,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_read_back() {
        let step = LoginStep { message: "waiting for the other computer".to_owned() };
        let event = LoginEvent::Waiting(step);
        let read = LoginEvent::read(event.name(), &event.data().unwrap()).unwrap();
        assert_eq!(read, Some(event));
        assert_eq!(LoginEvent::read("later", "{}").unwrap(), None);
        assert!(LoginEvent::read("code", "{}").is_err());
    }

    #[test]
    fn requests_are_flat() {
        let text = r#"{"url":"https://s","name":"laptop","keystore":"file"}"#;
        let login: Login = serde_json::from_str(text).unwrap();
        assert_eq!(login.setup.keystore.as_deref(), Some("file"));
        assert_eq!(serde_json::to_string(&login).unwrap(), text);
    }
}
