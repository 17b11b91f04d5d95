//! The disk under the store, as the person hears of it: full, or not to be written any more.
//!
//! Commits note their trouble here and [`follow`] tells it through the status. A full disk is
//! tried until it has room again; one that turned read-only stays so until the daemon is started
//! anew, because only a new start knows what is on it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::status::Status;
use crate::store::Store;

/// What keeps the store from writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// There is no room. Nothing is lost: writes are refused before they begin.
    Full,
    /// The file system is read-only, or the files are not this user's to write any more.
    ReadOnly,
}

impl Trouble {
    /// The code of its alarm.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Full => "disk_full",
            Self::ReadOnly => "disk_read_only",
        }
    }

    fn text(self, dir: &Path) -> String {
        match self {
            Self::Full => format!("there is no room left for {}", dir.display()),
            Self::ReadOnly => format!("{} cannot be written any more", dir.display()),
        }
    }
}

/// The disk of one store. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub struct Disk {
    dir: Arc<PathBuf>,
    trouble: watch::Sender<Option<Trouble>>,
}

impl Disk {
    /// The disk that a directory lies on, in order.
    pub fn of(dir: &Path) -> Self {
        Self { dir: Arc::new(dir.to_owned()), trouble: watch::Sender::new(None) }
    }

    /// What is wrong with it now.
    pub fn trouble(&self) -> Option<Trouble> {
        *self.trouble.borrow()
    }

    /// Notes that a write found no room.
    pub fn is_full(&self) {
        self.trouble.send_if_modified(|trouble| {
            let new = trouble.is_none();
            *trouble = trouble.or(Some(Trouble::Full));
            new
        });
    }

    /// Notes that a write went through.
    fn has_room(&self) {
        self.trouble
            .send_if_modified(|trouble| trouble.take_if(|it| *it == Trouble::Full).is_some());
    }

    /// Looks why a commit failed: true if it is because nothing can be written here any more.
    pub fn turned_read_only(&self) -> bool {
        // Only a try tells: a file system that gave up after an error still calls itself writable.
        let file = self.dir.join("WRITABLE");
        let read_only = match std::fs::write(&file, "").and_then(|()| std::fs::remove_file(&file)) {
            Ok(()) => false,
            Err(error) => {
                matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
            }
        };
        if read_only {
            self.trouble.send_replace(Some(Trouble::ReadOnly));
        }
        read_only
    }
}

/// How often a full disk is tried: the person should see soon that it has room again.
const CHECK: Duration = Duration::from_secs(1);

/// Tells what is wrong with a store's disk, until the token is cancelled.
pub async fn follow(store: Store, status: Status, clock: Clock, stopping: CancellationToken) {
    let disk = store.disk().clone();
    let mut follower = disk.trouble.subscribe();
    let mut before = None;
    loop {
        let trouble = *follower.borrow_and_update();
        if trouble != before {
            tell(&disk, &status, &clock, before, trouble);
            before = trouble;
        }
        tokio::select! {
            () = stopping.cancelled() => return,
            changed = follower.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(CHECK), if trouble == Some(Trouble::Full) => {
                if store.try_write().await {
                    disk.has_room();
                }
            }
        }
    }
}

fn tell(
    disk: &Disk,
    status: &Status,
    clock: &Clock,
    before: Option<Trouble>,
    now: Option<Trouble>,
) {
    status.set_disk(now.map(|trouble| trouble.text(&disk.dir)));
    if let Some(before) = before {
        status.clear(before.code());
    }
    match now {
        Some(trouble) => {
            let text = trouble.text(&disk.dir);
            tracing::error!("{text}: reading goes on, writes are refused");
            let text = format!("{text}: changes are refused, reading goes on");
            status.raise(trouble.code(), text, clock.now());
        }
        None => tracing::info!("there is room on the disk again"),
    }
}
