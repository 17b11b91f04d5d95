//! The daemon's directory: where it is, and the few files in it that are not the store's.
//!
//! `config.toml` (settings), `store/` (everything durable, with its own lock), `owner.token` (made
//! by the API's gate). The paths come from one rule that every program shares.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tidings_client::socket::{PlaceError, Places};

/// Why there is no home.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// No place can be named.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The directory cannot be made or used.
    #[error("cannot use the home {}: {source}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The directory belongs to somebody else.
    #[error("the home {} belongs to user {owner}, not to you", .path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
}

/// Where one daemon keeps its things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    places: Places,
}

impl Home {
    /// The home that was named, or the one of this process's environment. Creates nothing.
    ///
    /// # Errors
    /// [`HomeError::Place`].
    pub fn find(named: Option<&Path>) -> Result<Self, HomeError> {
        Ok(Self { places: Places::find(named)? })
    }

    /// A home with its socket at the given places; for tests and for programs that know better.
    pub fn at(data: impl Into<PathBuf>, socket: impl Into<PathBuf>) -> Self {
        Self { places: Places { data: data.into(), socket: socket.into() } }
    }

    /// Makes the directory, for this user alone.
    ///
    /// # Errors
    /// It cannot be made, or is somebody else's.
    pub fn create(&self) -> Result<(), HomeError> {
        let path = &self.places.data;
        let failed = |source| HomeError::Directory { path: path.clone(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let found = fs::metadata(path).map_err(failed)?;
        let me = rustix::process::geteuid().as_raw();
        if found.uid() != me {
            return Err(HomeError::Foreign { path: path.clone(), owner: found.uid() });
        }
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        Ok(())
    }

    /// The directory.
    pub fn data(&self) -> &Path {
        &self.places.data
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.places.socket
    }

    /// The directory of the store.
    pub fn store(&self) -> PathBuf {
        self.places.data.join("store")
    }

    /// The file of this device's keys, where they do not lie in the keychain.
    pub fn keys(&self) -> PathBuf {
        self.places.data.join("keys")
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.places.data.join("config.toml")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_this_user_s_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("a/b"), dir.path().join("s"));
        home.create().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(home.data()), 0o700);
        fs::set_permissions(home.data(), fs::Permissions::from_mode(0o755)).unwrap();
        home.create().unwrap();
        assert_eq!(mode(home.data()), 0o700);
        fs::write(dir.path().join("file"), "").unwrap();
        let refused = Home::at(dir.path().join("file/x"), dir.path().join("s")).create();
        assert!(refused.unwrap_err().to_string().contains("cannot use the home"));
    }
}
