//! How many files, and so connections, the process may open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that stay free for the store, its logs and the accept loop itself; half of them where the
/// process may open very few.
const SPARE: u64 = 64;

/// What the operating system allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimit {
    /// Open files.
    pub files: u64,
    /// Connections: 90 % of the files, and 64 spare.
    pub connections: usize,
}

/// Raises the limit of open files as far as it may be, and tells where it is.
pub fn raise_limit() -> FileLimit {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(1 << 20);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit of open files stays");
        }
    }
    of(getrlimit(Resource::Nofile).current.unwrap_or(1 << 20))
}

fn of(files: u64) -> FileLimit {
    let spared = files.saturating_sub(SPARE).max(files / 2);
    let connections = (files / 10 * 9).min(spared).max(1);
    FileLimit { files, connections: usize::try_from(connections).unwrap_or(usize::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_stay_free() {
        assert_eq!(of(1_000).connections, 900);
        assert_eq!(of(200).connections, 136);
        assert_eq!(of(64).connections, 32);
        assert_eq!(of(1).connections, 1);
    }
}
