//! The search of everything outside the devices, in the demo's own order: first what the warm-up
//! leaves, which is what the protocol says by itself, then all of it for the rows.

use std::io;
use std::path::{Path, PathBuf};

use super::plaintext::{Found, Search, Sought, files_below};

/// What is searched: directories, and how to.
#[derive(Debug)]
pub struct Sealed {
    places: Vec<PathBuf>,
    search: Search,
}

/// What a search found.
#[derive(Debug)]
pub struct Report {
    /// The first find.
    pub found: Option<Found>,
    /// Bytes that were searched.
    pub bytes: u64,
    /// Words that the protocol itself uses, and which were therefore sought in other forms only.
    pub vocabulary: Vec<String>,
}

impl Sealed {
    /// Looks at the places as they are before the first row is written: what occurs there already
    /// is the protocol's own vocabulary. `warm_up` must not occur even there.
    ///
    /// # Errors
    /// A file cannot be read, or there is too much to look for.
    pub fn before(
        places: Vec<PathBuf>,
        warm_up: &Sought,
        rows: &Sought,
    ) -> io::Result<(Self, Option<Found>)> {
        let mut warm = warm_up.search().map_err(io::Error::other)?;
        let mut search = rows.search().map_err(io::Error::other)?;
        let mut found = None;
        for place in &places {
            found = found.or(warm.find_below(place)?);
            search.ignore_below(place)?;
        }
        Ok((Self { places, search }, found))
    }

    /// Searches all places for the rows.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn after(mut self) -> io::Result<Report> {
        let mut found = None;
        for place in &self.places {
            if found.is_none() {
                found = self.search.find_below(place)?;
            }
        }
        Ok(Report {
            found,
            bytes: self.search.bytes(),
            vocabulary: self.search.ignored().into_iter().map(str::to_owned).collect(),
        })
    }
}

/// Bytes of all files below a directory.
///
/// # Errors
/// It cannot be read.
pub fn bytes_below(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for path in files_below(dir)? {
        bytes += std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    }
    Ok(bytes)
}
