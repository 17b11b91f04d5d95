//! What can go wrong with one call to the system.

/// One fault: the `kth` call of this kind in this phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub phase: Phase,
    /// At which call.
    pub call: Call,
    /// At which of them, from 1; each thread of the program counts for itself.
    pub kth: u64,
    /// What happens.
    pub act: Act,
}

/// When a fault may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// From the program's first instruction on.
    Opening,
    /// From the moment on in which it serves.
    Serving,
}

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// `write` and its kin.
    Write,
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
    /// `rename`.
    Rename,
    /// `openat`.
    Openat,
    /// `ftruncate`.
    Ftruncate,
    /// `read` and its kin, which only fail.
    Read,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Write,
        Self::Fsync,
        Self::Fdatasync,
        Self::Rename,
        Self::Openat,
        Self::Ftruncate,
        Self::Read,
    ];

    /// The names that strace knows it by.
    pub(super) fn names(self) -> &'static str {
        match self {
            Self::Write => "write,writev,pwrite64,pwritev",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::Rename => "rename",
            Self::Openat => "openat",
            Self::Ftruncate => "ftruncate",
            Self::Read => "read,pread64",
        }
    }

    /// What can happen to it.
    pub(super) fn acts(self) -> &'static [Act] {
        match self {
            Self::Read => &[Act::Eio],
            _ => &[Act::Eio, Act::Enospc, Act::Kill],
        }
    }

    /// The kind of a line of strace's.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|call| call.names().split(',').any(|known| known == name))
    }
}

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It fails: the device has an error.
    Eio,
    /// It fails: the disk is full.
    Enospc,
    /// The program is killed.
    Kill,
    /// A write writes its first half and says so.
    Short,
    /// A write writes its first half and the program is killed.
    Torn,
}

impl Act {
    /// How strace is told; none for what it cannot do.
    pub(super) fn injection(self) -> Option<&'static str> {
        match self {
            Self::Eio => Some("error=EIO"),
            Self::Enospc => Some("error=ENOSPC"),
            Self::Kill => Some("signal=KILL"),
            Self::Short | Self::Torn => None,
        }
    }
}
