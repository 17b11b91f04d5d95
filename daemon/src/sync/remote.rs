//! The account's server: a client from what is stored, and what its failures mean to the engine.

use tidings_client::ErrorKind;
use tidings_client::remote::{ClientError, Config, ConfigError, SyncClient, Timeouts, Trust};
use tidings_engine::{Failure, PushFailure};
use tidings_wire::{Code, Problem};

use crate::vault::AccountRecord;

/// A client of the account's server, not signed in.
///
/// # Errors
/// The stored address or authority cannot be used.
pub fn client(record: &AccountRecord, timeouts: Timeouts) -> Result<SyncClient, ConfigError> {
    let authority = record.authority.as_ref().map(|pem| pem.to_vec());
    client_of(&record.url, authority, timeouts)
}

/// A client of a server that is not the account's yet.
///
/// # Errors
/// The address or authority cannot be used.
pub fn client_of(
    url: &str,
    authority: Option<Vec<u8>>,
    timeouts: Timeouts,
) -> Result<SyncClient, ConfigError> {
    let mut config = Config::new(url.parse()?);
    config.timeouts = timeouts;
    if let Some(pem) = authority {
        config.trust = Trust::Pinned(pem);
    }
    SyncClient::new(&config)
}

/// What a failed call means.
pub fn failure(error: &ClientError) -> Failure {
    match error {
        ClientError::Problem { problem, retry_after, .. } => match problem.code {
            Code::TokenExpired | Code::TokenInvalid | Code::AuthRequired => Failure::Token,
            Code::DeviceRevoked => Failure::Unlinked,
            Code::InvalidField if names_cursor(problem) => Failure::Cursor,
            _ if error.kind() == ErrorKind::Retry => Failure::Busy(*retry_after),
            _ => Failure::Refused,
        },
        ClientError::NoToken => Failure::Token,
        ClientError::TooLarge { .. }
        | ClientError::Protocol(_)
        | ClientError::RequestTooLarge { .. } => Failure::Refused,
        ClientError::Unreachable(_)
        | ClientError::Certificate(_)
        | ClientError::Timeout
        | ClientError::Interrupted(_)
        | ClientError::NotTidings { .. } => Failure::Unreachable,
    }
}

/// Whether it is the cursor of a pull that the server will not take: it holds keys of its own to
/// read them, and may have come from a copy that had others.
fn names_cursor(problem: &Problem) -> bool {
    let field = problem.details.as_ref().and_then(|details| details.get("field"));
    field.and_then(|field| field.as_str()) == Some("cursor")
}

/// What a refused push means.
pub fn push_failure(error: &ClientError) -> PushFailure {
    match error.code() {
        Some(Code::ChainMoved) => PushFailure::ChainMoved,
        Some(Code::ManifestBehind) => PushFailure::ManifestBehind,
        Some(Code::LaneFork) => PushFailure::LaneFork,
        Some(Code::LaneGap) => PushFailure::LaneGap,
        Some(Code::LaneBehind) => PushFailure::LaneBehind,
        Some(Code::BelowFloor) => PushFailure::BelowFloor,
        _ => PushFailure::Failed(failure(error)),
    }
}
