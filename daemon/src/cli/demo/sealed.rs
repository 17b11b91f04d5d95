//! The search of everything outside the devices, in the demo's own order: first what the warm-up
//! leaves, which is what the protocol says by itself, then all of it for the rows.

use std::io;
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;

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
            refuse_compressed(place)?;
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

/// Nothing can be found in a body that HTTP has compressed, so a search over one would prove
/// nothing. Neither side asks for it; this makes sure of it.
fn refuse_compressed(dir: &Path) -> io::Result<()> {
    let header = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(["\r\ncontent-encoding:"])
        .map_err(io::Error::other)?;
    for path in files_below(dir)? {
        if header.is_match(&std::fs::read(&path)?) {
            let path = path.display();
            return Err(io::Error::other(format!("{path} holds bodies that HTTP compressed")));
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sought(text: &str) -> Sought {
        let mut sought = Sought::default();
        sought.value(&serde_json::json!(text));
        sought
    }

    #[test]
    fn what_was_there_before_is_no_find_but_a_leak_in_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let places = vec![dir.path().to_owned()];
        std::fs::write(dir.path().join("wire"), "202 Accepted, as far as the eye can see").unwrap();
        let (sealed, early) =
            Sealed::before(places.clone(), &sought("as far as the eye"), &sought("Accepted"))
                .unwrap();
        assert_eq!(early.unwrap().text, "as far as the eye");
        let report = sealed.after().unwrap();
        assert_eq!((report.found, report.vocabulary), (None, vec!["Accepted".to_owned()]));

        let (sealed, early) =
            Sealed::before(places, &sought("nothing like it"), &sought("The Land Girls")).unwrap();
        assert_eq!(early, None);
        std::fs::write(dir.path().join("store"), "\0The Land Girls\0").unwrap();
        assert_eq!(sealed.after().unwrap().found.unwrap().place, "store");
        assert!(bytes_below(dir.path()).unwrap() > 40);
    }

    #[test]
    fn compressed_bodies_are_not_searched_in_silence() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("wire"), "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n")
            .unwrap();
        assert!(refuse_compressed(dir.path()).unwrap_err().to_string().contains("compressed"));
    }
}
