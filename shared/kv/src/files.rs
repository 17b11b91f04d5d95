//! The few file operations whose order decides what a power cut leaves.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use crate::StoreError;

/// Makes the entries of a directory durable (names, not contents). Windows has no such call; its
/// file systems journal names by themselves.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    if cfg!(windows) {
        return Ok(());
    }
    File::open(dir)
        .and_then(|file| file.sync_all())
        .map_err(|error| StoreError::io(format!("sync the directory {}", dir.display()), error))
}

/// Makes a file's contents durable.
pub(crate) fn sync_file(path: &Path) -> Result<(), StoreError> {
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| StoreError::io(format!("sync {}", path.display()), error))
}

/// Replaces a file so that a crash at any point leaves the old or the new contents, and the new
/// ones are durable on return.
pub(crate) fn replace(dir: &Path, name: &str, contents: &[u8]) -> Result<(), StoreError> {
    prepare(dir, name, contents)?;
    put_in_place(dir, name)
}

/// The first half of [`replace`]: the new contents are durable, and nothing is replaced yet.
pub(crate) fn prepare(dir: &Path, name: &str, contents: &[u8]) -> Result<(), StoreError> {
    let write = || -> io::Result<()> {
        let mut file = File::create(dir.join(format!("{name}.new")))?;
        file.write_all(contents)?;
        file.sync_all()
    };
    write().map_err(|error| StoreError::io(format!("write {}", dir.join(name).display()), error))
}

/// The second half of [`replace`]. After an error the old or the new contents may be there.
pub(crate) fn put_in_place(dir: &Path, name: &str) -> Result<(), StoreError> {
    let path = dir.join(name);
    fs::rename(dir.join(format!("{name}.new")), &path)
        .map_err(|error| StoreError::io(format!("write {}", path.display()), error))?;
    sync_dir(dir)
}

/// Reads a small file; none if there is none. More than `limit` bytes is an error, not an
/// allocation.
pub(crate) fn read_small(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut contents = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, limit + 1), &mut contents)?;
    if contents.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"));
    }
    Ok(Some(contents))
}

/// Bytes of all files below a directory.
pub(crate) fn size_below(dir: &Path) -> Result<u64, StoreError> {
    let fail = |error| StoreError::io(format!("measure {}", dir.display()), error);
    let mut total = 0;
    for entry in fs::read_dir(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => total += size_below(&entry.path())?,
            Ok(meta) => total += on_disk(&meta),
            // Engines remove files while they are being counted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail(error)),
        }
    }
    Ok(total)
}

/// Bytes that a file takes on disk: sled's log has holes, so its length says too much.
#[cfg(unix)]
pub(crate) fn on_disk(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(meta).saturating_mul(512)
}

/// Bytes that a file takes on disk.
#[cfg(not(unix))]
pub(crate) fn on_disk(meta: &fs::Metadata) -> u64 {
    meta.len()
}
