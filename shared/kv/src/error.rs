//! What can go wrong with a store, and what the caller should do about it.
//!
//! Every error is cloneable, because one failed sync is the answer to every write that waited
//! for it.

use std::{io, path::PathBuf, sync::Arc};

/// What the caller of a failed operation should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Try again later: the condition may pass, or a restart clears it.
    Retry,
    /// The store will not do this as things stand; a person has to change something.
    Refused,
    /// Stored bytes are not what was written.
    Damaged,
    /// The program asked for something that no store can do.
    Misuse,
}

/// A failure of a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Another process, or another handle in this one, has the store open.
    #[error("the store {} is in use{}", .dir.display(), by_process(*.pid))]
    Held {
        /// Directory of the store.
        dir: PathBuf,
        /// The holder, as it wrote itself into the label file.
        pid: Option<u32>,
    },
    /// The store was written by a newer version of this program. Nothing was touched.
    #[error(
        "the {what} has version {found}, written by program version {written_by}; this is \
         version {program}, which knows versions up to {known}: install version {written_by} or \
         newer, or restore an older backup"
    )]
    Newer {
        /// Which of the versions is newer: the store format or the owner's table layout.
        what: &'static str,
        /// The version found on disk.
        found: u32,
        /// The newest version known here.
        known: u32,
        /// Version of the program that wrote the store last.
        written_by: String,
        /// Version of this program.
        program: &'static str,
    },
    /// The store exists but is not the one that was asked for (another engine or another owner).
    #[error("the store {} holds {found}, not {asked}", .dir.display())]
    Mismatch {
        /// Directory of the store.
        dir: PathBuf,
        /// What the marker names.
        found: String,
        /// What the caller named.
        asked: String,
    },
    /// Bytes are missing or altered.
    #[error("damaged: {0}")]
    Damaged(Damage),
    /// There is no room for the write. Nothing of it was stored; reads go on.
    #[error("no space left for the store{}", room(*.needed, *.free))]
    StorageFull {
        /// Bytes that the write wanted to find free; 0 if the system refused without a figure.
        needed: u64,
        /// Bytes that were free.
        free: u64,
    },
    /// The operating system refused an operation outside of a commit.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried, with the path.
        doing: String,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// The commit failed half way: the write may or may not be stored. The store takes no more
    /// writes until it is opened again; repeating the write then is safe if it is idempotent.
    #[error("the write may or may not be stored: {reason}")]
    Unknown {
        /// What failed.
        reason: Arc<str>,
    },
    /// An earlier commit failed half way, so this one was not tried.
    #[error("the store stopped after a failed commit: {reason}")]
    Failed {
        /// What failed first.
        reason: Arc<str>,
    },
    /// The engine could not answer a read; opening the store again may help.
    #[error("the store cannot be read: {reason}")]
    Unreadable {
        /// What failed.
        reason: Arc<str>,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// More writes are waiting than the queue holds.
    #[error("too many writes are waiting")]
    Busy,
    /// No such table was named when the store was opened.
    #[error("the store has no table {0:?}")]
    UnknownTable(String),
    /// A table list or option that no store can be opened with.
    #[error("invalid options: {0}")]
    InvalidOptions(String),
    /// A key longer than [`MAX_KEY`](crate::MAX_KEY).
    #[error("a key of {0} bytes is longer than {max}", max = crate::MAX_KEY)]
    KeyTooLong(usize),
    /// A write job panicked; nothing that it wrote is stored.
    #[error("a write job panicked: {0}")]
    JobPanicked(String),
    /// A value longer than [`MAX_VALUE`](crate::MAX_VALUE).
    #[error("a value of {0} bytes is longer than {max}", max = crate::MAX_VALUE)]
    ValueTooLong(usize),
}

impl StoreError {
    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::StorageFull { .. }
            | Self::Unknown { .. }
            | Self::Failed { .. }
            | Self::Unreadable { .. }
            | Self::Closed
            | Self::Busy => ErrorKind::Retry,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::NotADirectory => ErrorKind::Refused,
                _ => ErrorKind::Retry,
            },
            Self::Held { .. } | Self::Newer { .. } | Self::Mismatch { .. } => ErrorKind::Refused,
            Self::Damaged(_) => ErrorKind::Damaged,
            Self::UnknownTable(_)
            | Self::InvalidOptions(_)
            | Self::KeyTooLong(_)
            | Self::ValueTooLong(_)
            | Self::JobPanicked(_) => ErrorKind::Misuse,
        }
    }

    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Self {
        if is_full(&source) {
            return Self::StorageFull { needed: 0, free: 0 };
        }
        Self::Io { doing: doing.into(), source: Arc::new(source) }
    }

    pub(crate) fn damaged(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Damaged(Damage { place: place.into(), what: what.into() })
    }

    pub(crate) fn unknown(reason: impl std::fmt::Display) -> Self {
        Self::Unknown { reason: reason.to_string().into() }
    }

    pub(crate) fn unreadable(reason: impl std::fmt::Display) -> Self {
        Self::Unreadable { reason: reason.to_string().into() }
    }
}

/// Where damage was found, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Damage {
    /// A file, or a table and key.
    pub place: String,
    /// What was expected and what was found.
    pub what: String,
}

/// Why a write job has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError<E> {
    /// The job itself said no; nothing that it wrote is stored.
    #[error("{0}")]
    Job(E),
    /// The job panicked; nothing that it wrote is stored.
    #[error("the write job panicked: {0}")]
    Panicked(String),
    /// The store could not commit.
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl From<CommitError<StoreError>> for StoreError {
    /// For jobs whose own errors are the store's.
    fn from(error: CommitError<StoreError>) -> Self {
        match error {
            CommitError::Job(error) | CommitError::Store(error) => error,
            CommitError::Panicked(message) => Self::JobPanicked(message),
        }
    }
}

impl PartialEq for StoreError {
    /// Compares what the person would read; two errors with the same text are the same answer.
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for StoreError {}

/// Whether the system said that there is no room: on the device, or in the person's quota.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn room(needed: u64, free: u64) -> String {
    if needed == 0 {
        return String::new();
    }
    format!(": {free} bytes free, {needed} needed")
}

fn by_process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" by process {pid}"))
}
