//! What the engine orders: the driver carries each out and reports back.

use tidings_proof::Replica;
use tidings_wire::sync::ManifestHead;
use tidings_wire::{AppId, TableTag};

use crate::facts::LaneKey;

/// An order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Sign in; answer with [`crate::Engine::handle_token`].
    SignIn,
    /// Open the stream of the account.
    OpenStream,
    /// Close the stream: it is dead or no longer allowed.
    CloseStream,
    /// Read the chain, then the key ring, then the list of apps.
    ReadAccount,
    /// Pull a page.
    Pull(PullOrder),
    /// Freeze a prefix of the app's outbox into a push, durably.
    Freeze(AppId),
    /// Sign a manifest without blobs, durably.
    SignManifest(AppId),
    /// Send the frozen push; the ticket comes back with the answer.
    Push(AppId, u64),
    /// Sign a new manifest for the frozen blobs, durably; then [`crate::Engine::handle_frozen`].
    Resign(AppId),
    /// Take a new incarnation: frozen pushes and cursors of all apps go, outboxes and stamps stay;
    /// then [`crate::Engine::handle_renewed`].
    NewIncarnation {
        /// Why.
        cause: RenewCause,
        /// Queue every row of every app again: the server lost some.
        refill: bool,
    },
    /// Try again to open what lies in the app's quarantine; then
    /// [`crate::Engine::handle_retried`]. Nothing of the app is pulled meanwhile.
    RetryQuarantine(AppId),
    /// Alarms came or went; [`crate::Engine::alarms`] has them all.
    Alarms,
}

/// Why a replica takes a new incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RenewCause {
    /// Another blob stands where ours should: this replica was copied or restored.
    Copied,
    /// The server lost blobs of ours.
    ServerLost,
    /// What we froze is below what was compacted.
    Behind,
    /// The server took pushes of ours and shows less, without admitting that it lost anything.
    Dropped,
}

/// Which page to pull.
#[derive(Debug, Clone, PartialEq)]
pub struct PullOrder {
    /// The app.
    pub app: AppId,
    /// Comes back with the answer; an answer to an earlier order counts for nothing.
    pub ticket: u64,
    /// What for.
    pub purpose: Purpose,
    /// Where to go on; none from the start.
    pub cursor: Option<Vec<u8>>,
    /// Only these tables; all if empty.
    pub tags: Vec<TableTag>,
    /// Most entries.
    pub limit: u32,
    /// Manifests that need not be sent again, at most
    /// [`tidings_wire::limits::PULL_KNOWN_MANIFESTS`].
    pub known: Vec<ManifestHead>,
}

/// What a pull is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What is new.
    Next,
    /// A missing blob of a lane.
    Refetch(LaneKey),
}

/// Something that the person must learn: the server, or somebody between, does what it must not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// The server shows less of a replica than it showed before.
    Rollback {
        /// The app.
        app: AppId,
        /// Of which replica.
        replica: Replica,
    },
    /// The server keeps back a blob that its author says is there.
    Withheld {
        /// The app.
        app: AppId,
        /// The lane.
        lane: LaneKey,
    },
    /// The server names a manifest of another replica and does not give it, or gives what does not
    /// verify: nothing can be judged by it then.
    ManifestWithheld {
        /// The app.
        app: AppId,
        /// Whose.
        replica: Replica,
    },
    /// The server shows different histories to different devices.
    Fork {
        /// The app.
        app: AppId,
        /// Of which replica.
        replica: Replica,
    },
    /// The server keeps back an app that another device knows.
    AppWithheld {
        /// The app.
        app: AppId,
    },
    /// The device chain on the server is shorter than it was.
    ChainRollback,
    /// The device chain on the server contradicts the pinned one.
    ChainFork,
    /// Pages of an app do not move on.
    NoProgress {
        /// The app.
        app: AppId,
    },
}
