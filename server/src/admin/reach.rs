//! Paths of Unix sockets that are longer than an address holds.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Longest path that every system takes in a socket's address, in bytes (`sun_path` of macOS, its
/// NUL left out).
pub(super) const PATH: usize = 103;

/// A path that fits an address and leads to a socket; good while this lives.
#[derive(Debug)]
pub(super) struct Reach {
    /// The path to use.
    pub(super) path: PathBuf,
    _dir: Option<OwnedFd>,
}

impl Reach {
    /// The path itself, or a short way to it through its open directory, which Linux has.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= PATH {
            return Ok(Self { path: path.to_owned(), _dir: None });
        }
        Self::through_directory(path)
    }

    #[cfg(target_os = "linux")]
    fn through_directory(path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags, open};
        use std::os::fd::AsRawFd as _;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let dir = open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        if short.as_os_str().len() > PATH {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        Ok(Self { path: short, _dir: Some(dir) })
    }

    #[cfg(not(target_os = "linux"))]
    fn through_directory(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::InvalidFilename.into())
    }
}
