//! The environment as one snapshot, so that the rules over it can be tested.

use std::{
    ffi::{OsStr, OsString},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

/// Whose conventions for directories hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// XDG base directories; other systems with them count as Linux.
    Linux,
    /// `~/Library`.
    MacOs,
}

impl Platform {
    /// The platform that this program was built for.
    pub const CURRENT: Self = if cfg!(target_os = "macos") { Self::MacOs } else { Self::Linux };

    /// Longest path of a Unix socket, in bytes: `sun_path` without its final NUL.
    #[must_use]
    pub const fn socket_path_limit(self) -> usize {
        match self {
            Self::Linux => 107,
            Self::MacOs => 103,
        }
    }
}

/// All that the places depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Whose conventions hold.
    pub platform: Platform,
    /// `HOME`.
    pub home: Option<OsString>,
    /// `TIDINGS_HOME`.
    pub tidings_home: Option<OsString>,
    /// `TIDINGS_SOCKET`.
    pub tidings_socket: Option<OsString>,
    /// `XDG_DATA_HOME`.
    pub xdg_data_home: Option<OsString>,
    /// `XDG_RUNTIME_DIR`.
    pub xdg_runtime_dir: Option<OsString>,
    /// Whether that directory, and `tidings` in it if it exists, are this user's alone.
    pub runtime_is_private: bool,
    /// The home of this user's account, where the system's file of accounts names it.
    pub account_home: Option<PathBuf>,
}

impl Environment {
    /// Nothing set, for the platform that this program was built for.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            platform: Platform::CURRENT,
            home: None,
            tidings_home: None,
            tidings_socket: None,
            xdg_data_home: None,
            xdg_runtime_dir: None,
            runtime_is_private: false,
            account_home: None,
        }
    }

    /// What this process was started with.
    #[must_use]
    pub fn of_process() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let xdg_runtime_dir = std::env::var_os("XDG_RUNTIME_DIR");
        let runtime_is_private = xdg_runtime_dir.as_deref().is_some_and(|path| {
            let path = Path::new(path);
            is_private(path, uid) == Some(true)
                && is_private(&path.join("tidings"), uid) != Some(false)
        });
        let accounts = std::fs::read("/etc/passwd").unwrap_or_default();
        Self {
            home: std::env::var_os("HOME"),
            tidings_home: std::env::var_os("TIDINGS_HOME"),
            tidings_socket: std::env::var_os("TIDINGS_SOCKET"),
            xdg_data_home: std::env::var_os("XDG_DATA_HOME"),
            xdg_runtime_dir,
            runtime_is_private,
            account_home: account_home(&accounts, uid),
            ..Self::empty()
        }
    }
}

/// Whether a path is a directory (not a link to one) of this user that nobody else may enter;
/// `None` when there is nothing.
fn is_private(path: &Path, uid: u32) -> Option<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => {
            let private = found.permissions().mode() & 0o077 == 0;
            Some(found.is_dir() && found.uid() == uid && private)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(_) => Some(false),
    }
}

/// The home in a file of accounts (passwd(5)). Accounts that come from elsewhere are not in it.
pub(super) fn account_home(accounts: &[u8], uid: u32) -> Option<PathBuf> {
    let uid = uid.to_string();
    accounts.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        (fields.nth(2)? == uid.as_bytes()).then_some(())?;
        let home = Path::new(OsStr::from_bytes(fields.nth(2)?));
        home.is_absolute().then(|| home.components().collect())
    })
}
