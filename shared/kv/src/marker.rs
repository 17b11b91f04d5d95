//! The `STORE` marker beside the data: what the store is, and how far it had come.
//!
//! It is a small text file, replaced as a whole, whose first two lines (`tidings-store VERSION`,
//! `written-by VERSION`) keep their meaning for ever, so that any older program can say what it
//! found. With it a lost or rolled-back data file is damage, never an empty store.

use std::{fmt, path::Path, str::FromStr};

use crate::{StoreError, files};

/// Version of the store format: marker, record and file layout.
pub const FORMAT_VERSION: u32 = 1;

/// Random name of one store, from its creation on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

/// Random name of one life of a store: a restored copy gets a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Generation(pub [u8; 8]);

impl StoreId {
    pub(crate) fn random() -> Result<Self, StoreError> {
        random().map(Self)
    }
}

impl Generation {
    /// A new generation.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn random() -> Result<Self, StoreError> {
        random().map(Self)
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

/// How the last opener left the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The data is being made; nothing was ever acknowledged.
    Creating,
    /// Written to since the last clean close.
    Open,
    /// Closed in order.
    Clean,
}

/// The marker's contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) engine: String,
    pub(crate) owner: String,
    pub(crate) layout: u32,
    pub(crate) store: StoreId,
    pub(crate) generation: Generation,
    /// Number of a commit that was durable when this marker was written.
    pub(crate) high_water: u64,
    pub(crate) stage: Stage,
    /// Version of the program that wrote this marker.
    pub(crate) written_by: String,
}

impl Marker {
    /// Reads the marker of a store directory; none if there is none.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(NAME);
        let place = path.display().to_string();
        match files::read_small(&path, LIMIT) {
            Ok(None) => Ok(None),
            Ok(Some(bytes)) => Self::parse(&bytes, &place).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                Err(StoreError::damaged(place, error.to_string()))
            }
            Err(error) => Err(StoreError::io(format!("read {place}"), error)),
        }
    }

    /// Replaces the marker; durable on return.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), StoreError> {
        files::replace(dir, NAME, self.text().as_bytes())
    }

    fn text(&self) -> String {
        let stage = match self.stage {
            Stage::Creating => "creating",
            Stage::Open => "open",
            Stage::Clean => "clean",
        };
        let lines = format!(
            "tidings-store {FORMAT_VERSION}\nwritten-by {PROGRAM}\nengine {}\nowner {}\nlayout {}\n\
             store {}\ngeneration {}\nhigh-water {}\nstage {stage}\n",
            self.engine, self.owner, self.layout, self.store, self.generation, self.high_water,
        );
        format!("{lines}check {}\n", check(&lines))
    }

    fn parse(bytes: &[u8], place: &str) -> Result<Self, StoreError> {
        let damaged = |what: &str| StoreError::damaged(place, what);
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("not text"))?;
        let mut lines = text.lines();
        let mut field = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.ok_or_else(|| damaged(&format!("the line {name:?} is missing")))
        };
        let format: u32 = number(field("tidings-store")?, place)?;
        let written_by = field("written-by")?.to_owned();
        // Before the checksum: a newer format may have its own.
        newer("store format", format, FORMAT_VERSION, &written_by)?;
        let (body, sum) = text.rsplit_once("check ").ok_or_else(|| damaged("cut short"))?;
        if sum.trim_end() != check(body) {
            return Err(damaged("its checksum does not match"));
        }
        Ok(Self {
            engine: field("engine")?.to_owned(),
            owner: field("owner")?.to_owned(),
            layout: number(field("layout")?, place)?,
            store: StoreId(unhex(field("store")?).ok_or_else(|| damaged("bad store id"))?),
            generation: Generation(
                unhex(field("generation")?).ok_or_else(|| damaged("bad generation"))?,
            ),
            high_water: number(field("high-water")?, place)?,
            stage: match field("stage")? {
                "creating" => Stage::Creating,
                "open" => Stage::Open,
                "clean" => Stage::Clean,
                _ => return Err(damaged("an unknown stage")),
            },
            written_by,
        })
    }

    /// Refuses a store whose owner's layout is newer than `known`.
    pub(crate) fn allow_layout(&self, known: u32) -> Result<(), StoreError> {
        newer("table layout", self.layout, known, &self.written_by)
    }
}

fn newer(what: &'static str, found: u32, known: u32, by: &str) -> Result<(), StoreError> {
    if found <= known {
        return Ok(());
    }
    Err(StoreError::Newer { what, found, known, written_by: by.to_owned(), program: PROGRAM })
}

fn number<T: FromStr>(text: &str, place: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::damaged(place, format!("{text:?} is not a number")))
}

fn check(body: &str) -> String {
    let hash = blake3::hash(body.as_bytes()).to_hex();
    hash.chars().take(16).collect()
}

fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::io("draw random bytes", std::io::Error::other(error)))?;
    Ok(bytes)
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

const NAME: &str = "STORE";
const LIMIT: u64 = 4096;
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use super::*;

    fn marker() -> Marker {
        Marker {
            engine: "sled".to_owned(),
            owner: "tidings-server".to_owned(),
            layout: 3,
            store: StoreId([0xab; 16]),
            generation: Generation([1; 8]),
            high_water: 42,
            stage: Stage::Open,
            written_by: PROGRAM.to_owned(),
        }
    }

    #[test]
    fn reads_what_it_writes() {
        let text = marker().text();
        assert_eq!(Marker::parse(text.as_bytes(), "STORE").unwrap(), marker());
    }

    #[test]
    fn any_altered_byte_is_noticed() {
        let text = marker().text();
        for index in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[index] ^= 1;
            let error = Marker::parse(&bytes, "STORE").unwrap_err();
            let expected = matches!(error, StoreError::Damaged(_) | StoreError::Newer { .. });
            assert!(expected, "byte {index}: {error}");
        }
        for length in 0..text.len() - 1 {
            let error = Marker::parse(&text.as_bytes()[..length], "STORE").unwrap_err();
            assert!(matches!(error, StoreError::Damaged(_)), "length {length}: {error}");
        }
    }

    #[test]
    fn a_newer_format_is_named_with_both_versions() {
        let text = "tidings-store 9\nwritten-by 4.5.6\nsomething else\n";
        let error = Marker::parse(text.as_bytes(), "STORE").unwrap_err().to_string();
        for part in ["9", "4.5.6", PROGRAM, "up to 1"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
