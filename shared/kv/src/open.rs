//! Opening a store: lock, marker, data, in this order, and every way in which they can disagree.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use crate::{
    Durability, Engine, EngineKind, Generation, Options, Store, StoreError, StoreId,
    committer::{Committer, Keeper},
    engine::{MemoryEngine, RedbEngine, SledEngine},
    files,
    lock::Lock,
    marker::{Marker, PROGRAM, Stage},
    records::{FIRST_COMMIT, Identity, META, PARTS, Records, guarded},
    space::Space,
    store::Parts,
};

/// Whether an engine has to make its data or find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The store is new: there is no data yet.
    Create,
    /// The store exists: missing data is damage.
    Existing,
}

impl Store {
    /// Opens the store in a directory, or makes one if the directory holds none. With
    /// [`EngineKind::Memory`] the directory is not looked at.
    ///
    /// # Errors
    /// [`StoreError::Held`] if it is open elsewhere, [`StoreError::Newer`] if a newer program wrote
    /// it, [`StoreError::Mismatch`] if it is another owner's or another engine's,
    /// [`StoreError::Damaged`] if marker and data do not fit. Nothing is changed in these cases.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        if options.engine == EngineKind::Memory {
            return Self::in_memory(options);
        }
        let (engine, cache, check) = (options.engine, options.cache, options.check);
        Self::open_with(dir, options, |dir, tables, opening| {
            Ok(match (engine, opening) {
                (EngineKind::Sled, Opening::Create) => {
                    Box::new(SledEngine::create(dir, tables, cache)?)
                }
                (EngineKind::Sled, Opening::Existing) => {
                    Box::new(SledEngine::open(dir, tables, cache)?)
                }
                (EngineKind::Redb, Opening::Create) => {
                    Box::new(RedbEngine::create(dir, tables, cache)?)
                }
                (EngineKind::Redb, Opening::Existing) => {
                    Box::new(RedbEngine::open(dir, tables, cache, check)?)
                }
                (EngineKind::Memory, _) => Box::new(MemoryEngine::new(tables)),
            })
        })
    }

    /// A store in memory, without a directory; for tests.
    ///
    /// # Errors
    /// The options are not valid, or the system gives no thread or random bytes.
    pub fn in_memory(options: Options) -> Result<Self, StoreError> {
        let options = Options { engine: EngineKind::Memory, ..options };
        options.validate()?;
        let records = Records::new(Box::new(MemoryEngine::new(&all(&options))), options.tables)?;
        let marker = fresh(&options)?;
        let identity = Identity { store: marker.store, commit: FIRST_COMMIT };
        records.commit(Vec::new(), identity, Durability::Synced)?;
        assemble(None, records, identity, Marker { stage: Stage::Clean, ..marker }, options, true)
    }

    /// Opens a store on an engine that the caller opens, for instance to wrap one of this crate's.
    /// The closure gets the store's directory and every table that the engine must have.
    ///
    /// # Errors
    /// As [`Store::open`], and what the closure answers.
    pub fn open_with(
        dir: impl AsRef<Path>,
        options: Options,
        engine: impl FnOnce(&Path, &[&'static str], Opening) -> Result<Box<dyn Engine>, StoreError>,
    ) -> Result<Self, StoreError> {
        options.validate()?;
        let dir = dir.as_ref();
        make_dir(dir)?;
        let lock = Lock::take(dir)?;
        match Marker::read(dir)? {
            None => {
                if present(dir) {
                    let what = "the file is missing beside the store's data";
                    return Err(StoreError::damaged(dir.join("STORE").display().to_string(), what));
                }
                create((dir, lock), fresh(&options)?, options, engine)
            }
            Some(marker) => {
                agree(dir, &marker, &options)?;
                if marker.stage == Stage::Creating {
                    // An earlier creation was cut short; nothing in it was ever acknowledged.
                    remove(dir)?;
                    return create((dir, lock), fresh(&options)?, options, engine);
                }
                existing((dir, lock), marker, options, engine)
            }
        }
    }
}

type Home<'a> = (&'a Path, Lock);

fn create(
    (dir, lock): Home<'_>,
    marker: Marker,
    options: Options,
    engine: impl FnOnce(&Path, &[&'static str], Opening) -> Result<Box<dyn Engine>, StoreError>,
) -> Result<Store, StoreError> {
    Space::new(Some(dir.to_owned()), options.reserve).allows(0)?;
    marker.write(dir)?;
    let engine = guarded(|| engine(dir, &all(&options), Opening::Create))?;
    let records = Records::new(engine, options.tables)?;
    let identity = Identity { store: marker.store, commit: FIRST_COMMIT };
    records.commit(Vec::new(), identity, Durability::Synced)?;
    let marker = Marker { stage: Stage::Clean, high_water: FIRST_COMMIT, ..marker };
    marker.write(dir)?;
    assemble(Some((dir, lock)), records, identity, marker, options, true)
}

fn existing(
    (dir, lock): Home<'_>,
    marker: Marker,
    options: Options,
    engine: impl FnOnce(&Path, &[&'static str], Opening) -> Result<Box<dyn Engine>, StoreError>,
) -> Result<Store, StoreError> {
    // Damaged files make engines panic as well as fail.
    let engine = guarded(|| engine(dir, &all(&options), Opening::Existing))?;
    let records = Records::new(engine, options.tables)?;
    let place = dir.display().to_string();
    let identity = records.identity()?.ok_or_else(|| {
        let what = format!("the data is empty, but the marker knows {} commits", marker.high_water);
        StoreError::damaged(&place, what)
    })?;
    if identity.store != marker.store {
        let what =
            format!("the data is of store {}, the marker of {}", identity.store, marker.store);
        return Err(StoreError::damaged(place, what));
    }
    if identity.commit < marker.high_water {
        let what = format!(
            "the data ends at commit {}, but commit {} was durable",
            identity.commit, marker.high_water
        );
        return Err(StoreError::damaged(place, what));
    }
    // Not before: what looks like a leftover might be the data of a damaged store.
    records.engine.tidy();
    let clean = marker.stage == Stage::Clean;
    if !clean {
        // Engines drop a torn end without a word.
        let (dir, commit) = (dir.display(), identity.commit);
        tracing::info!(%dir, commit, "the store was not closed in order; it ends at this commit");
    }
    assemble(Some((dir, lock)), records, identity, marker, options, clean)
}

fn assemble(
    home: Option<Home<'_>>,
    records: Records,
    identity: Identity,
    marker: Marker,
    options: Options,
    clean: bool,
) -> Result<Store, StoreError> {
    let (dir, lock) = home.map(|(dir, lock)| (dir.to_owned(), lock)).unzip();
    let records = Arc::new(records);
    let keeper = Arc::new(Mutex::new(Keeper::new(dir.clone(), marker)));
    let space = Space::new(dir.clone(), options.reserve);
    let committer =
        Committer::start(Arc::clone(&records), identity, Arc::clone(&keeper), space, &options)?;
    let lock = Mutex::new(lock);
    Ok(Store::new(Parts { dir, records, keeper, committer, lock, clean, engine: options.engine }))
}

/// The owner's tables and the store's own. What names the store comes last, because a rewrite
/// copies tables in this order and a copy without it is nobody's store.
fn all(options: &Options) -> Vec<&'static str> {
    options.tables.iter().copied().chain([PARTS, META]).collect()
}

fn fresh(options: &Options) -> Result<Marker, StoreError> {
    Ok(Marker {
        engine: options.engine.name().to_owned(),
        owner: options.owner.to_owned(),
        layout: options.layout,
        store: StoreId::random()?,
        generation: Generation::random()?,
        high_water: 0,
        stage: Stage::Creating,
        written_by: PROGRAM.to_owned(),
    })
}

fn agree(dir: &Path, marker: &Marker, options: &Options) -> Result<(), StoreError> {
    let pairs = [
        (&marker.owner, options.owner, "a store of"),
        (&marker.engine, options.engine.name(), "data of the engine"),
    ];
    for (found, asked, what) in pairs {
        if found != asked {
            return Err(StoreError::Mismatch {
                dir: dir.to_owned(),
                found: format!("{what} {found}"),
                asked: asked.to_owned(),
            });
        }
    }
    marker.allow_layout(options.layout)
}

fn present(dir: &Path) -> bool {
    SledEngine::present(dir) || RedbEngine::present(dir)
}

fn remove(dir: &Path) -> Result<(), StoreError> {
    SledEngine::remove(dir).and_then(|()| RedbEngine::remove(dir)).map_err(|error| {
        StoreError::io(format!("clear the unfinished store {}", dir.display()), error)
    })?;
    files::sync_dir(dir)
}

/// Makes the directory, for its owner's eyes only, and its name durable.
fn make_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(dir)
        .map_err(|error| StoreError::io(format!("create {}", dir.display()), error))?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => files::sync_dir(parent),
        _ => Ok(()),
    }
}
