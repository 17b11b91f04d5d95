//! Turns a store's directory into what a power cut would have left, from the shim's journal.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{BufReader, Read},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use crate::pick;

/// What a disk did with writes that were never synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It kept none of them.
    Everything,
    /// It kept each page of 4 KiB, and each file's length, as of some moment since the last sync,
    /// and not the same moment. The seed decides.
    Scattered(u64),
    /// It lied about its syncs, and kept nothing since the process started. No program survives
    /// that: it shows that a suite can fail.
    Lies,
}

/// One change of a file: what was there before.
struct Change {
    offset: u64,
    /// Bytes written; 0 for a change of length.
    length: u64,
    old_size: u64,
    old: Vec<u8>,
}

const PAGE: u64 = 4096;
const SYNC: u32 = 2;
const RENAME: u32 = 4;

/// Undoes what was not synced; answers how many changes were taken back, in whole or in part.
pub(crate) fn undo(dir: &Path, journal: &Path, loss: Loss) -> u64 {
    let unsynced = unsynced(journal, loss);
    let mut undone = 0;
    // First: the changes below are of files, whatever their names.
    for (nth, (_, renaming)) in unsynced.renamings.iter().rev().enumerate() {
        undone += 1;
        if !matches!(loss, Loss::Scattered(_)) {
            rename_back(renaming, nth == 0);
        }
    }
    let mut paths = BTreeMap::new();
    inodes(dir, &mut paths);
    for (inode, changes) in unsynced.changes {
        // A file that was removed, or replaced by a rename, is gone for good.
        let Some(path) = paths.get(&inode) else { continue };
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let count = changes.len() as u64;
        // How many of the changes a page, or the length, has kept.
        let kept = |salt: u64| match loss {
            Loss::Everything | Loss::Lies => 0,
            Loss::Scattered(seed) => {
                pick(seed ^ inode.rotate_left(20) ^ salt.rotate_left(40), count + 1)
            }
        };
        for (index, change) in (0..count).rev().zip(changes.iter().rev()) {
            undone += u64::from(take_back(&file, change, |page| kept(page + 1) <= index));
        }
        let size = usize::try_from(kept(0)).ok().and_then(|kept| changes.get(kept));
        if let Some(change) = size {
            file.set_len(change.old_size).unwrap();
        }
    }
    undone
}

/// Restores what a change replaced on the pages that lost it.
fn take_back(file: &File, change: &Change, lost: impl Fn(u64) -> bool) -> bool {
    let end = change.offset + change.length.max(change.old.len() as u64);
    let pages = change.offset / PAGE..end.div_ceil(PAGE);
    let mut any = false;
    for page in pages.filter(|page| lost(*page)) {
        let from = (page * PAGE).max(change.offset);
        let to = ((page + 1) * PAGE).min(end);
        let bytes: Vec<u8> = (from..to)
            .map(|at| change.old.get((at - change.offset) as usize).copied().unwrap_or(0))
            .collect();
        file.write_all_at(&bytes, from).unwrap();
        any = true;
    }
    any
}

/// Undoes a rename: the old name again, and under the new one what was there before. The last of
/// all may never have been made.
fn rename_back(renaming: &[u8], last: bool) {
    let text = std::str::from_utf8(renaming).unwrap();
    let [from, to, saved] = text.split('\n').collect::<Vec<_>>()[..] else { panic!("{text}") };
    // Or it was removed since: then the rename is as durable as the removal.
    if (last && Path::new(from).exists()) || !Path::new(to).exists() {
        return;
    }
    fs::rename(to, from).unwrap();
    if !saved.is_empty() {
        fs::rename(saved, to).unwrap();
    }
}

/// What was not synced.
#[derive(Default)]
struct Unsynced {
    /// The changes of each file, by inode, since its last sync.
    changes: BTreeMap<u64, Vec<Change>>,
    /// The renames since their directory's last sync, by its inode and as the shim spells them.
    renamings: Vec<(u64, Vec<u8>)>,
}

fn unsynced(journal: &Path, loss: Loss) -> Unsynced {
    let mut journal = BufReader::new(File::open(journal).unwrap());
    let mut unsynced = Unsynced::default();
    // A torn entry at the end belongs to a write that never ran.
    while let Some((kind, inode, change)) = entry(&mut journal) {
        match kind {
            SYNC if loss == Loss::Lies => {}
            SYNC => {
                unsynced.renamings.retain(|(directory, _)| *directory != inode);
                unsynced.changes.remove(&inode);
            }
            RENAME => unsynced.renamings.push((inode, change.old)),
            _ => unsynced.changes.entry(inode).or_default().push(change),
        }
    }
    unsynced
}

fn entry(journal: &mut impl Read) -> Option<(u32, u64, Change)> {
    let mut head = [0; 48];
    journal.read_exact(&mut head).ok()?;
    let field = |n: usize| u64::from_ne_bytes(head[n * 8..n * 8 + 8].try_into().unwrap());
    let mut old = vec![0; usize::try_from(field(5)).unwrap()];
    journal.read_exact(&mut old).ok()?;
    let change = Change { offset: field(2), length: field(3), old_size: field(4), old };
    Some((u32::try_from(field(0)).unwrap(), field(1), change))
}

fn inodes(dir: &Path, found: &mut BTreeMap<u64, PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        if meta.is_dir() {
            inodes(&entry.path(), found);
        } else {
            found.insert(meta.ino(), entry.path());
        }
    }
}
