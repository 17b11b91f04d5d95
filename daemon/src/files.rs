//! How many files the process may open, and how many of them may be connections of apps.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that stay free for the store, for connections to the server and for reading what lies in
/// the home, so that a flood of apps stops neither.
const SPARE: u64 = 32;

/// Raises the limit of open files as far as it may be, and tells how many connections it allows.
pub fn raise_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // The system's "none" is no limit at all.
    if limit.current.is_some() && limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit of open files stays");
        }
    }
    connections(getrlimit(Resource::Nofile).current)
}

/// How many of so many files may be connections; none stands for no limit.
fn connections(files: Option<u64>) -> usize {
    let Some(files) = files else { return usize::MAX };
    usize::try_from(files.saturating_sub(SPARE).max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_stay_free() {
        assert_eq!(connections(Some(64)), 32);
        assert_eq!(connections(Some(8)), 1);
        assert_eq!(connections(None), usize::MAX);
    }
}
