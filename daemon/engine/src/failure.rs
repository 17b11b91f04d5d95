//! Why a request to the server did not do what it should, sorted by what follows from it.

use std::time::Duration;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No answer of a Tidings server: no route, cut, timed out, or somebody else's page.
    Unreachable,
    /// The token does not count any more.
    Token,
    /// The server says that this device was unlinked. Its word alone changes nothing here; the
    /// chain decides.
    Unlinked,
    /// The server cannot do it now; it may have said for how long.
    Busy(Option<Duration>),
    /// The server will not do it, whenever it is asked.
    Refused,
    /// The server does not know the cursor: it must be pulled from the beginning.
    Cursor,
}

/// Why a push was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushFailure {
    /// As any request.
    Failed(Failure),
    /// The chain has grown: read it, sign a new manifest, send the same blobs.
    ChainMoved,
    /// The server holds a manifest of this replica that is as new or newer.
    ManifestBehind,
    /// The lane holds another blob at that number.
    LaneFork,
    /// The server lacks earlier blobs of the lane: it lost data.
    LaneGap,
    /// The blob is below what was compacted.
    LaneBehind,
    /// The format is below the account's floor.
    BelowFloor,
    /// Nothing is frozen: the commit that froze it failed, or is not done yet. What was written
    /// lies in the outbox.
    NothingFrozen,
}
