//! Why a call to the daemon failed.

use std::{error::Error, io, path::PathBuf, time::Duration};

use tidings_wire::{Code, Problem};

use crate::ErrorKind;

/// Why a call did not bring its answer.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// Nothing listens on the socket.
    #[error("no daemon answers on {}: {reason}", .socket.display())]
    NoDaemon {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The socket belongs to somebody else.
    #[error("the socket {} may not be used by this user", .socket.display())]
    Refused {
        /// The socket.
        socket: PathBuf,
    },
    /// The daemon said no, in its own words.
    #[error("{problem}")]
    Problem {
        /// The HTTP status.
        status: u16,
        /// What it said.
        problem: Box<Problem>,
    },
    /// The answer did not come in time, or a stream fell silent. What was asked may be done.
    #[error("the daemon did not answer in time")]
    Timeout,
    /// The connection broke. What was asked may be done.
    #[error("the connection to the daemon broke: {0}")]
    Interrupted(String),
    /// The answer is not what a daemon answers.
    #[error("the daemon's answer cannot be read: {0}")]
    Protocol(String),
    /// The call cannot be put into a request.
    #[error("the request cannot be made: {0}")]
    BadRequest(String),
}

impl LocalError {
    /// What the caller may do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoDaemon { .. } | Self::Timeout | Self::Interrupted(_) => ErrorKind::Retry,
            Self::Problem { status: 408 | 429 | 500..=599, .. } => ErrorKind::Retry,
            Self::Refused { .. } | Self::Problem { .. } => ErrorKind::Refused,
            Self::Protocol(_) => ErrorKind::Damaged,
            Self::BadRequest(_) => ErrorKind::Misuse,
        }
    }

    /// The problem code, when the daemon named one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem { problem, .. } => Some(problem.code),
            _ => None,
        }
    }

    /// How long the daemon asks to wait before the next try.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Problem { problem, .. } => problem.retry_after.map(Duration::from_secs),
            _ => None,
        }
    }

    /// From a failure before the head of the answer was here.
    pub(super) fn from_send(
        error: &hyper_util::client::legacy::Error,
        socket: &std::path::Path,
    ) -> Self {
        let socket = socket.to_owned();
        let cause = io_cause(error);
        match cause.map(io::Error::kind) {
            Some(io::ErrorKind::PermissionDenied) if error.is_connect() => Self::Refused { socket },
            _ if error.is_connect() => {
                let reason = cause.map_or_else(|| error.to_string(), io::Error::to_string);
                Self::NoDaemon { socket, reason }
            }
            _ => Self::Interrupted(innermost(error)),
        }
    }
}

fn io_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref() {
            return Some(found);
        }
        next = current.source();
    }
    None
}

/// The cause at the end of the chain, which says most.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
