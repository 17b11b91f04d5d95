//! Names of sled's directories. `CURRENT` names the one that counts, `sled.1` at first; a rewrite
//! fills the next number and takes over by replacing `CURRENT`. Any other is a leftover.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::missing;
use crate::{StoreError, files};

/// The number of a store's first directory.
pub(super) const FIRST: u64 = 1;

/// Whether a store directory holds data of sled, even half made.
pub(super) fn present(dir: &Path) -> bool {
    dir.join(CURRENT).exists() || all(dir).is_ok_and(|all| !all.is_empty())
}

/// Removes data that was never finished.
pub(super) fn remove_all(dir: &Path) -> io::Result<()> {
    for (_, home) in all(dir)? {
        fs::remove_dir_all(home)?;
    }
    match fs::remove_file(dir.join(CURRENT)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The directory of a number.
pub(super) fn home(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number}"))
}

/// Every directory of sled's, with its number.
pub(super) fn all(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(number) = entry.file_name().to_str().and_then(number) {
            found.push((number, entry.path()));
        }
    }
    Ok(found)
}

/// Removes every directory but one; what resists is left for the next time.
pub(super) fn sweep(dir: &Path, keep: u64) {
    let others = all(dir).unwrap_or_default().into_iter().filter(|(number, _)| *number != keep);
    for (_, home) in others {
        if let Err(error) = fs::remove_dir_all(&home) {
            tracing::warn!(%error, home = %home.display(), "a leftover could not be removed");
        }
    }
}

/// Reads `CURRENT`.
pub(super) fn current(dir: &Path) -> Result<u64, StoreError> {
    let path = dir.join(CURRENT);
    let name = files::read_small(&path, 256)
        .map_err(|error| StoreError::io(format!("read {}", path.display()), error))?
        .ok_or_else(|| missing(&path))?;
    let name = String::from_utf8_lossy(&name);
    number(name.trim_end()).ok_or_else(|| {
        let what = format!("names {name:?}, which is not a data directory");
        StoreError::damaged(path.display().to_string(), what)
    })
}

/// Writes the `CURRENT` that [`switch`] puts in place; durable on return, and no effect yet.
pub(super) fn prepare(dir: &Path, number: u64) -> Result<(), StoreError> {
    files::prepare(dir, CURRENT, format!("{PREFIX}{number}\n").as_bytes())
}

/// Puts the prepared `CURRENT` in place; durable on return. After an error nobody can say which
/// one a restart will find.
pub(super) fn switch(dir: &Path) -> Result<(), StoreError> {
    files::put_in_place(dir, CURRENT)
}

fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    // Only the spelling that is written: "+2" and "02" parse, too.
    digits.parse().ok().filter(|number: &u64| number.to_string() == digits)
}

const CURRENT: &str = "CURRENT";
const PREFIX: &str = "sled.";
