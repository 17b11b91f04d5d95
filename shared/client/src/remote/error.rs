//! Why a call to a server failed, and why a client could not be made.

use std::{error::Error, time::Duration};

use tidings_wire::{Code, Problem};

use crate::ErrorKind;

/// Why a call did not bring its answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// No connection came about.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The server's certificate does not fit its name or the trusted authorities.
    #[error("the server's certificate is not trusted: {0}")]
    Certificate(String),
    /// The answer did not come in time.
    #[error("the server did not answer in time")]
    Timeout,
    /// The connection broke before the whole answer was here. What was asked may have been done.
    #[error("the connection broke before the answer was complete: {0}")]
    Interrupted(String),
    /// The server said no, in its own words.
    #[error("{problem}")]
    Problem {
        /// The HTTP status.
        status: u16,
        /// What it said.
        problem: Box<Problem>,
        /// How long it asks to wait, from the envelope or the `Retry-After` header.
        retry_after: Option<Duration>,
    },
    /// Something answered that is not a Tidings server: a login page of a network, a redirect, an
    /// error page of a proxy.
    #[error("the answer is not from a Tidings server ({found}, status {status})")]
    NotTidings {
        /// The HTTP status.
        status: u16,
        /// What came instead.
        found: String,
        /// How long the `Retry-After` header asks to wait.
        retry_after: Option<Duration>,
    },
    /// The answer is larger than a sound server sends; it was not read to its end.
    #[error("the server's answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The answer came whole and is not what the call answers.
    #[error("the server's answer cannot be read: {0}")]
    Protocol(String),
    /// What was to be sent is larger than the server takes; nothing was sent.
    #[error("the request of {size} bytes is larger than the {limit} bytes that a server takes")]
    RequestTooLarge {
        /// Its size, in bytes.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The call needs a token and the client has none.
    #[error("this call needs a sign-in first")]
    NoToken,
}

impl ClientError {
    /// What the caller may do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable(_)
            | Self::Certificate(_)
            | Self::Timeout
            | Self::Interrupted(_)
            | Self::NotTidings { .. } => ErrorKind::Retry,
            Self::Problem { status, problem, .. } => problem_kind(*status, problem.code),
            Self::TooLarge { .. } | Self::Protocol(_) => ErrorKind::Damaged,
            Self::RequestTooLarge { .. } | Self::NoToken => ErrorKind::Misuse,
        }
    }

    /// How long the server asks to wait before the next try.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Problem { retry_after, .. } | Self::NotTidings { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }

    /// What the server said, when it said no in its own words.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem { problem, .. } => Some(problem),
            _ => None,
        }
    }

    /// The problem code, when the server named one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        self.problem().map(|problem| problem.code)
    }

    /// From a failure before the answer's head was here.
    pub(crate) fn from_send(error: &reqwest::Error) -> Self {
        if let Some(tls) = find::<rustls::Error>(error)
            && let rustls::Error::InvalidCertificate(_) = tls
        {
            return Self::Certificate(tls.to_string());
        }
        if error.is_timeout() {
            Self::Timeout
        } else if error.is_connect() {
            Self::Unreachable(innermost(error))
        } else {
            Self::Interrupted(innermost(error))
        }
    }

    /// From a failure while the answer's body came in.
    pub(crate) fn from_body(error: &reqwest::Error) -> Self {
        if error.is_timeout() { Self::Timeout } else { Self::Interrupted(innermost(error)) }
    }
}

/// The envelope's code decides, except that a code this version does not know leaves it to the
/// status.
fn problem_kind(status: u16, code: Code) -> ErrorKind {
    match code {
        Code::QuotaExceeded => ErrorKind::Refused,
        Code::BadBody
        | Code::BadJson
        | Code::TooDeep
        | Code::UnknownField
        | Code::MissingField
        | Code::InvalidField
        | Code::RouteNotFound
        | Code::MethodNotAllowed
        | Code::TooLarge
        | Code::UnsupportedMediaType
        | Code::NotAcceptable => ErrorKind::Misuse,
        _ if matches!(status, 408 | 425 | 429 | 500..=599) => ErrorKind::Retry,
        _ => ErrorKind::Refused,
    }
}

/// Why a client could not be made from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The server's URL cannot be used.
    #[error("`{url}` is not the URL of a server: {why}")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Plain HTTP to another machine would show the account's tokens to the network.
    #[error("`{url}` is not encrypted; use https (plain http is only for this computer itself)")]
    PlainHttp {
        /// What was given.
        url: String,
    },
    /// The file of the pinned authority cannot be read.
    #[error("cannot read the certificate authority {path}: {source}")]
    AuthorityFile {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The pinned authority is not PEM with at least one certificate.
    #[error("the pinned certificate authority cannot be used: {0}")]
    BadAuthority(String),
    /// The system's trust store cannot be used.
    #[error("the system's certificate authorities cannot be used: {0}")]
    NoSystemTrust(String),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(String),
}

impl ConfigError {
    /// Always the caller's or the configuration's fault.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Misuse
    }
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        // An io::Error shows the source of what it wraps, and not what it wraps itself.
        if let Some(io) = current.downcast_ref::<std::io::Error>()
            && let Some(found) = io.get_ref().and_then(|inner| find::<E>(inner))
        {
            return Some(found);
        }
        next = current.source();
    }
    None
}

/// The cause at the end of the chain; the outer ones only repeat the URL.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
