//! What a caller may do about an error.

/// Whose turn it is after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The same call may succeed later; back off and try again.
    Retry,
    /// The other side understood and said no; the same call gets the same answer.
    Refused,
    /// What came back is not what a sound peer sends.
    Damaged,
    /// The call itself was wrong: a fault in the calling program or its configuration.
    Misuse,
}
