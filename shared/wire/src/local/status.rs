//! What the daemon says of itself.

use serde::{Deserialize, Serialize};

use super::LogPosition;
use crate::ids::{AccountId, AppId, DeviceId};

/// `GET /v1/status`, and each event of its stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusAnswer {
    /// What the daemon does now.
    pub state: SyncState,
    /// What it waits for, in one sentence, where it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Version of the daemon.
    pub version: String,
    /// Names this computer's store.
    pub store: String,
    /// The account, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountId>,
    /// This device in the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceId>,
    /// The server's URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// When the server last proved what it holds, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_at: Option<String>,
    /// Whether there is a recovery kit that works; none while that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_kit: Option<bool>,
    /// Each app, by name.
    pub apps: Vec<AppStatus>,
    /// What a person should look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<Alarm>,
}

/// What the daemon does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncState {
    /// It opens its store.
    #[default]
    Starting,
    /// It has no account: apps work, nothing is synced.
    Local,
    /// Everything here is on the server and everything there is here.
    Synced,
    /// Changes are on their way.
    Syncing,
    /// The server cannot be reached.
    Offline,
    /// Something outside has to happen first; `reason` says what.
    Waiting,
    /// The person has to sign in.
    Reauth,
    /// This device was taken out of the account.
    Revoked,
    /// The store cannot be written; reads go on.
    Degraded,
    /// Stored bytes are not what was written.
    Damaged,
}

/// How far one app is synced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppStatus {
    /// The app.
    pub id: AppId,
    /// Its position here.
    pub position: LogPosition,
    /// Every own change at or below this is on the server.
    pub pushed: LogPosition,
    /// Own transactions that are not on the server yet.
    pub pending: u64,
    /// Blobs that arrived but do not verify or open.
    pub quarantined: u64,
    /// Where the first of these stand on the server: at most 16 positions, rising.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined_at: Vec<String>,
    /// Whether the first pull has come to its end.
    pub complete: bool,
}

/// Something that a person should look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Which, for programs.
    pub code: String,
    /// What it means, for the person.
    pub message: String,
    /// Since when, in UTC.
    pub since: String,
}

/// `GET /v1/ping` and `GET /v1/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingAnswer {
    /// Always true in a ping; in `health`, whether the store takes writes.
    pub ok: bool,
    /// Version of the daemon.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
}
