//! Where a daemon keeps its data and its socket: one rule for daemon, command line and apps.
//!
//! Pure path logic over a snapshot of the environment, so that every program of a person comes to
//! the same answer: a home's directory, or the directories of the desktop; a socket in the
//! runtime directory, the state directory or the home, never in a place that users share. Two
//! homes never share a socket. Nothing is created here.

mod environment;
#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

pub use environment::{Environment, Platform};

/// File name of the socket, wherever its directory is.
pub const SOCKET_NAME: &str = "tidings.sock";
/// File in the data directory with the owner's token, which the command line presents. 0600.
pub const OWNER_TOKEN_NAME: &str = "owner-token";

/// Where one daemon keeps its things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Its store, keys and configuration.
    pub data: PathBuf,
    /// Its socket.
    pub socket: PathBuf,
}

/// Why no place can be named. Each is one line that a person can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// There is no home directory to go by.
    #[error("HOME {state}; set it, or name a directory with --home or TIDINGS_HOME")]
    NoHome {
        /// How it is: `is not set`, `is empty`.
        state: &'static str,
    },
    /// A path in the environment depends on the current directory.
    #[error("{variable} must be an absolute path, not `{}`", .value.display())]
    NotAbsolute {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: PathBuf,
    },
    /// The home that was named cannot be made absolute.
    #[error("the home `{}` cannot be used: {reason}", .home.display())]
    BadHome {
        /// What was named.
        home: PathBuf,
        /// Why.
        reason: String,
    },
    /// The system takes no socket under a path so long, and there is no runtime directory for a
    /// short one.
    #[error(
        "the socket's path {} is {length} bytes long and this system takes {limit}; \
         choose a shorter home, or set TIDINGS_SOCKET to a short path",
        .path.display()
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length, in bytes.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
}

impl Places {
    /// The places of this process's environment, or of the home that was named.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn find(home: Option<&Path>) -> Result<Self, PlaceError> {
        Environment::of_process().places(home)
    }
}

impl Environment {
    /// Both places.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn places(&self, home: Option<&Path>) -> Result<Places, PlaceError> {
        Ok(Places { data: self.data(home)?, socket: self.socket(home)? })
    }

    /// The directory of the store, keys and configuration: the home that was named, else
    /// `TIDINGS_HOME`, else the desktop's directory for data.
    ///
    /// # Errors
    /// [`PlaceError`]; never [`PlaceError::TooLong`].
    pub fn data(&self, home: Option<&Path>) -> Result<PathBuf, PlaceError> {
        match self.chosen_home(home)? {
            Some(home) => Ok(home),
            None => Ok(self.desktop_data(&self.user_home()?)),
        }
    }

    /// The socket.
    ///
    /// 1. `TIDINGS_SOCKET`, unless a home was named by argument.
    /// 2. In a home that was chosen: `tidings.sock` in it.
    /// 3. Else on Linux `$XDG_RUNTIME_DIR/tidings/tidings.sock`, where that directory is this
    ///    user's alone, and `~/.local/state/tidings/run/tidings.sock` where it is not; on macOS
    ///    `tidings.sock` in the data directory. A home other than the account's own has a name of
    ///    its own there.
    /// 4. Where the path of 2 or 3 is too long for the system: a short name in the runtime
    ///    directory, made from the data directory's path.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn socket(&self, home: Option<&Path>) -> Result<PathBuf, PlaceError> {
        let by_argument = home.is_some_and(|home| Some(home.as_os_str()) != self.home_variable());
        if let Some(socket) = present(self.tidings_socket.as_ref()).filter(|_| !by_argument) {
            return self.fits(absolute("TIDINGS_SOCKET", socket)?);
        }
        let data = self.data(home)?;
        let wanted = match self.chosen_home(home)? {
            Some(home) => home.join(SOCKET_NAME),
            None => self.desktop_socket(&data)?,
        };
        match (self.fits(wanted), self.runtime()) {
            (Err(_), Some(runtime)) => self.fits(runtime.join(short_name(&data))),
            (result, _) => result,
        }
    }

    /// The home that a person chose, if one did.
    fn chosen_home(&self, home: Option<&Path>) -> Result<Option<PathBuf>, PlaceError> {
        let named = home.filter(|home| !home.as_os_str().is_empty());
        if let Some(home) = named {
            // What a person types may depend on where they stand; what a variable says may not.
            let full = std::path::absolute(home).map_err(|error| PlaceError::BadHome {
                home: home.to_owned(),
                reason: error.to_string(),
            })?;
            return Ok(Some(tidy(&full)));
        }
        let Some(variable) = self.home_variable() else { return Ok(None) };
        absolute("TIDINGS_HOME", variable).map(Some)
    }

    fn home_variable(&self) -> Option<&std::ffi::OsStr> {
        present(self.tidings_home.as_ref())
    }

    fn user_home(&self) -> Result<PathBuf, PlaceError> {
        let home = self.home.as_ref().ok_or(PlaceError::NoHome { state: "is not set" })?;
        if home.is_empty() {
            return Err(PlaceError::NoHome { state: "is empty" });
        }
        absolute("HOME", home)
    }

    fn desktop_data(&self, home: &Path) -> PathBuf {
        match self.platform {
            Platform::MacOs => home.join("Library/Application Support/Tidings"),
            Platform::Linux => {
                // The XDG rules: a relative path is to be ignored.
                let named = present(self.xdg_data_home.as_ref()).map(Path::new);
                match named.filter(|path| path.is_absolute()) {
                    Some(path) => tidy(&path.join("tidings")),
                    None => usual_data(home),
                }
            }
        }
    }

    fn desktop_socket(&self, data: &Path) -> Result<PathBuf, PlaceError> {
        if self.platform == Platform::MacOs {
            return Ok(data.join(SOCKET_NAME));
        }
        let home = self.user_home()?;
        let (directory, owner) = match self.runtime() {
            Some(runtime) => (runtime, self.account_home.as_deref().unwrap_or(&home)),
            None => (home.join(".local/state/tidings/run"), home.as_path()),
        };
        // The runtime directory is the account's, whatever HOME says, so only the account's own
        // data has the plain name there.
        let name =
            if data == usual_data(owner) { OsString::from(SOCKET_NAME) } else { short_name(data) };
        Ok(directory.join(name))
    }

    /// The directory for sockets in the runtime directory, where that can be trusted.
    fn runtime(&self) -> Option<PathBuf> {
        let runtime = Path::new(present(self.xdg_runtime_dir.as_ref())?);
        (self.runtime_is_private && runtime.is_absolute()).then(|| tidy(runtime).join("tidings"))
    }

    fn fits(&self, path: PathBuf) -> Result<PathBuf, PlaceError> {
        let (length, limit) = (path.as_os_str().len(), self.platform.socket_path_limit());
        if length > limit { Err(PlaceError::TooLong { path, length, limit }) } else { Ok(path) }
    }
}

/// An empty variable is as good as none.
fn present(variable: Option<&OsString>) -> Option<&std::ffi::OsStr> {
    variable.map(OsString::as_os_str).filter(|value| !value.is_empty())
}

fn absolute(variable: &'static str, value: &std::ffi::OsStr) -> Result<PathBuf, PlaceError> {
    let path = Path::new(value);
    if path.is_absolute() {
        Ok(tidy(path))
    } else {
        Err(PlaceError::NotAbsolute { variable, value: path.to_owned() })
    }
}

/// One spelling for one path: no trailing or doubled slash, no `.` in it.
fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

fn usual_data(home: &Path) -> PathBuf {
    home.join(".local/share/tidings")
}

/// `HASH.sock`: the first 16 hexadecimal digits of SHA-256 of the data directory's path.
fn short_name(data: &Path) -> OsString {
    let digest = Sha256::digest(data.as_os_str().as_bytes());
    let mut name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    name.push_str(".sock");
    name.into()
}
