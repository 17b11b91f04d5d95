//! What a call answers when it does not do what was asked: one envelope, a closed list of codes.
//!
//! `{"error":{"code":"quota.exceeded","message":"…","hint":"…","retryAfter":30,"details":{…}}}`
//! with the HTTP status of the code. The server and the daemon's socket share the envelope; each
//! code belongs to one status.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Defines the closed list: variant, text on the wire, HTTP status.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => $text:literal, $status:literal;)*) => {
        /// A problem code. The list is closed: a client that meets an unknown one reads it as
        /// [`Code::Internal`] and goes by the HTTP status.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code, in the order of this list.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The text on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The HTTP status that it comes with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }
        }
    };
}

codes! {
    // Requests of any kind.
    /// The body is not JSON (or not CBOR where CBOR is expected).
    BadBody => "request.bad_body", 400;
    /// The body is not JSON; `details` name line and column.
    BadJson => "request.bad_json", 400;
    /// The body nests deeper than 64.
    TooDeep => "request.too_deep", 400;
    /// A field that the call does not know; `details.accepted` lists those it does.
    UnknownField => "request.unknown_field", 400;
    /// An operator that does not exist, or not yet.
    UnknownOperator => "request.unknown_operator", 400;
    /// A field or parameter that the call needs.
    MissingField => "request.missing_field", 400;
    /// A field, parameter, header or path segment with a value that it cannot have.
    InvalidField => "request.invalid_field", 400;
    /// The request came with a foreign `Origin`, `Referer` or cross-site marker.
    BadOrigin => "request.bad_origin", 403;
    /// The `Host` header names somebody else.
    BadHost => "request.bad_host", 403;
    /// No such route.
    RouteNotFound => "route.not_found", 404;
    /// The route exists, the method does not.
    MethodNotAllowed => "route.method_not_allowed", 405;
    /// The body is larger than the limit that the message names.
    TooLarge => "request.too_large", 413;
    /// The body has a media type that the call does not take.
    UnsupportedMediaType => "request.unsupported_media_type", 415;
    /// Too many requests; `retryAfter` says when.
    RateLimited => "rate.limited", 429;
    /// The headers or the body did not arrive in time.
    Timeout => "request.timeout", 408;
    /// A fault on this side; the log has the request id.
    Internal => "internal", 500;
    /// The store does not take writes or does not answer now.
    StoreUnavailable => "store.unavailable", 503;
    /// The server is stopping or overloaded.
    Unavailable => "server.unavailable", 503;
    /// The disk is full; nothing was changed.
    StorageFull => "storage.full", 507;

    // Signing in.
    /// No credentials.
    AuthRequired => "auth.required", 401;
    /// The token's time is over.
    TokenExpired => "auth.token_expired", 401;
    /// The token, signature or challenge does not verify.
    TokenInvalid => "auth.token_invalid", 401;
    /// The device was revoked; `details.chain` holds the entries that say so.
    DeviceRevoked => "auth.device_revoked", 401;
    /// The token is of another device than the one that the request speaks for.
    DeviceMismatch => "auth.device_mismatch", 403;
    /// The caller on the socket is another user.
    PeerMismatch => "auth.peer_mismatch", 403;

    // Accounts and chains, on the server.
    /// Registration needs an invite code.
    InviteRequired => "account.invite_required", 403;
    /// The invite code does not exist, was used or has expired.
    InviteInvalid => "account.invite_invalid", 403;
    /// The account exists already.
    AccountExists => "account.exists", 409;
    /// No such account.
    AccountNotFound => "account.not_found", 404;
    /// The account is suspended by the operator.
    AccountSuspended => "account.suspended", 403;
    /// An entry does not verify or does not follow the chain.
    ChainInvalid => "chain.invalid", 400;
    /// The chain's head is another one by now.
    ChainMoved => "chain_moved", 409;
    /// A revoked device has written past the cut that the entry names.
    CutMoved => "cut_moved", 409;
    /// Wraps are missing, surplus or of another epoch than the entry needs.
    WrapsIncomplete => "chain.wraps_incomplete", 400;

    // Pushing and pulling, on the server.
    /// A blob or manifest does not verify.
    BadBlob => "blob.invalid", 400;
    /// The lane has another blob at that number.
    LaneFork => "lane_fork", 409;
    /// The lane lacks blobs before this one.
    LaneGap => "lane_gap", 409;
    /// The blob is below a lane head whose blobs were compacted.
    LaneBehind => "lane_behind", 409;
    /// The manifest's number is not above the one that the server holds.
    ManifestBehind => "manifest_behind", 409;
    /// What a compaction would replace is not what the server holds.
    CompactStale => "compact_stale", 409;
    /// The format or suite is below the account's floor.
    BelowFloor => "below_floor", 403;
    /// The account's quota is used up; nothing was changed.
    QuotaExceeded => "quota.exceeded", 507;

    // Pairing, on the server.
    /// No such mailbox: it never was, expired, or its guess was used up.
    MailboxNotFound => "pair.not_found", 404;
    /// The mailbox slot was written already.
    MailboxTaken => "pair.taken", 409;

    // Streams, on both.
    /// `Accept` excludes `text/event-stream`.
    NotAcceptable => "stream.not_acceptable", 406;
    /// Too many open streams.
    StreamLimit => "stream.limit", 429;

    // Rows and queries, on the socket.
    /// No such app.
    AppNotFound => "app.not_found", 404;
    /// No such table.
    TableNotFound => "table.not_found", 404;
    /// No such row (or not visible).
    RowNotFound => "row.not_found", 404;
    /// The row exists already.
    RowExists => "row.exists", 409;
    /// A value that a row cannot hold; `details.path` says where.
    RowInvalid => "row.invalid", 400;
    /// The row changed since the version that `If-Match` names.
    VersionMismatch => "row.version_mismatch", 412;
    /// A filter operator that does not exist, or not yet; `details.accepted` lists those that do.
    FilterUnknownOperator => "filter.unknown_operator", 400;
    /// A filter that cannot be read; `details.path` says where.
    FilterInvalid => "filter.invalid", 400;
    /// `offset` is past its limit; use `after`.
    OffsetTooLarge => "query.offset_too_large", 400;
    /// Part of the API that a later version brings.
    NotYet => "request.not_yet", 400;
    /// The daemon has no account yet.
    NoAccount => "account.missing", 409;
    /// The owner's token, or a grant, does not allow this.
    GrantDenied => "grant.denied", 403;
    /// The daemon has an account already.
    AccountPresent => "account.present", 409;
    /// The keys are locked, or not where they were put.
    KeysLocked => "keys.locked", 503;
    /// The code was not the same on both computers; it is of no more use.
    PairWrongCode => "pair.wrong_code", 409;
    /// The code expired, or the other computer gave up.
    PairEnded => "pair.ended", 410;
    /// The sync server refused or could not be reached; the message says what it said.
    UpstreamFailed => "upstream.failed", 502;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Code {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text).ok_or(())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Ok(text.parse().unwrap_or(Self::Internal))
    }
}

/// One problem, safe to show to a person: never a secret, key or file path of the other side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message} ({code})")]
pub struct Problem {
    /// Which problem.
    pub code: Code,
    /// What happened, and whether anything was changed.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Seconds to wait before trying again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Facts for programs, by code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

impl Problem {
    /// A problem with its message and nothing else.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, retry_after: None, details: None }
    }

    /// Adds what to do next.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds how many seconds to wait.
    pub fn with_retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Adds facts for programs.
    pub fn with_details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// The envelope around a [`Problem`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProblemBody {
    /// The problem.
    pub error: Problem,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_unique_and_read_back() {
        for code in Code::ALL {
            assert_eq!(code.as_str().parse(), Ok(*code));
            assert!((400..600).contains(&code.status()), "{code}");
        }
    }

    #[test]
    fn the_envelope_has_its_shape() {
        let body = ProblemBody {
            error: Problem::new(Code::RateLimited, "too many requests").with_retry_after(30),
        };
        assert_eq!(
            serde_json::to_string(&body).unwrap(),
            r#"{"error":{"code":"rate.limited","message":"too many requests","retryAfter":30}}"#
        );
        let unknown: Problem =
            serde_json::from_str(r#"{"code":"from.the.future","message":"m"}"#).unwrap();
        assert_eq!(unknown.code, Code::Internal);
    }
}
