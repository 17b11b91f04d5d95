//! The one encoding of everything that is signed: fixed order, big-endian numbers, explicit
//! lengths, so that a value has exactly one encoding and an encoding exactly one value.
//!
//! docs/protocol.md, "Encodings". The reader checks every length against its limit before it
//! allocates and refuses bytes after the end.

use tidings_wire::{
    AccountId, AppId, ChainIndex, DeviceId, Epoch, Hash, Incarnation, ManifestNumber, Seq, TableTag,
};

/// The format of everything this release writes: first byte of each signed thing.
pub const FORMAT: u8 = 1;

/// Bytes that are not the encoding they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end too early.
    #[error("the bytes end inside {0}")]
    Short(&'static str),
    /// They go on after the end.
    #[error("{0} bytes follow the end")]
    Trailing(usize),
    /// A length or a count is over its limit.
    #[error("{what} is over its limit of {limit}")]
    TooLong {
        /// Which field.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A field holds what it must not hold.
    #[error("{0}")]
    Invalid(&'static str),
    /// A format or kind that a later release introduced.
    #[error("{what} {found} needs a newer Tidings")]
    NeedsNewer {
        /// What is unknown.
        what: &'static str,
        /// The value found.
        found: u8,
    },
}

/// Builds an encoding.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Starts empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts empty, with room for a secret's encoding: growing would leave copies behind.
    pub fn with_capacity(len: usize) -> Self {
        Self { bytes: Vec::with_capacity(len) }
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.raw(&[value])
    }

    /// Two bytes, big-endian.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Four bytes, big-endian.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Eight bytes, big-endian.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Bytes whose number is fixed by the format: no length before them.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Bytes of varying number: their length as `u32`, then they.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len()).raw(bytes)
    }

    /// A text of at most 255 bytes: its length as `u8`, then its UTF-8.
    pub fn short_text(&mut self, text: &str) -> &mut Self {
        // Whatever is written so is bounded far below 255; a longer one would not decode.
        self.u8(u8::try_from(text.len()).unwrap_or(u8::MAX)).raw(text.as_bytes())
    }

    /// An app id, as a short text.
    pub fn app(&mut self, app: &AppId) -> &mut Self {
        self.short_text(app.as_str())
    }

    /// How many items of a list follow, as `u32`.
    pub fn count(&mut self, count: usize) -> &mut Self {
        // Limits keep every length far below `u32::MAX`; a longer one would not decode.
        self.u32(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// What was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The encoding.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads an encoding strictly.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// As [`Reader::new`], refusing more than `limit` bytes of `what`.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`].
    pub fn bounded(bytes: &'a [u8], what: &'static str, limit: usize) -> Result<Self, DecodeError> {
        if bytes.len() > limit {
            return Err(DecodeError::TooLong { what, limit });
        }
        Ok(Self::new(bytes))
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Short`], as all the readers below.
    pub fn raw(&mut self, what: &'static str, len: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Short(what))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// As [`Reader::raw`].
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Short(what))?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// One byte.
    ///
    /// # Errors
    /// As [`Reader::raw`].
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array(what).map(|[byte]| byte)
    }

    /// Two bytes, big-endian.
    ///
    /// # Errors
    /// As [`Reader::raw`].
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        self.array(what).map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    ///
    /// # Errors
    /// As [`Reader::raw`].
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    ///
    /// # Errors
    /// As [`Reader::raw`].
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.array(what).map(u64::from_be_bytes)
    }

    /// Bytes after their length, at most `limit` of them.
    ///
    /// # Errors
    /// [`DecodeError::Short`], [`DecodeError::TooLong`].
    pub fn bytes(&mut self, what: &'static str, limit: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.u32(what)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= limit);
        self.raw(what, len.ok_or(DecodeError::TooLong { what, limit })?)
    }

    /// A text of at most 255 bytes after its length.
    ///
    /// # Errors
    /// [`DecodeError::Short`], [`DecodeError::Invalid`] when it is not UTF-8.
    pub fn short_text(&mut self, what: &'static str) -> Result<&'a str, DecodeError> {
        let len = self.u8(what)?;
        let bytes = self.raw(what, usize::from(len))?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::Invalid("a text is not UTF-8"))
    }

    /// An app id.
    ///
    /// # Errors
    /// As [`Reader::short_text`], and when the text is not an app id.
    pub fn app(&mut self) -> Result<AppId, DecodeError> {
        let text = self.short_text("an app id")?;
        text.parse().map_err(|_| DecodeError::Invalid("an app id is malformed"))
    }

    /// How many items of a list follow, each of which takes at least `item_len` bytes.
    ///
    /// The count is checked against the bytes that are there, so a caller may reserve for it.
    ///
    /// # Errors
    /// [`DecodeError::Short`] when the rest cannot hold so many.
    pub fn count(&mut self, what: &'static str, item_len: usize) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.u32(what)?).ok();
        count
            .filter(|count| *count <= self.rest.len() / item_len.max(1))
            .ok_or(DecodeError::Short(what))
    }

    /// The format byte, which must be the one this release knows.
    ///
    /// # Errors
    /// [`DecodeError::NeedsNewer`] above it, [`DecodeError::Invalid`] for 0.
    pub fn format(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        match self.u8(what)? {
            0 => Err(DecodeError::Invalid("format 0 does not exist")),
            FORMAT => Ok(FORMAT),
            found => Err(DecodeError::NeedsNewer { what, found }),
        }
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] when bytes are left.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.rest.len())) }
    }
}

/// Defines the readers of ids and counters.
macro_rules! fixed {
    ($($(#[$doc:meta])* $read:ident, $type:ident, $raw:ident, $what:literal;)*) => {
        impl Reader<'_> {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// As [`Reader::raw`].
                pub fn $read(&mut self) -> Result<$type, DecodeError> {
                    self.$raw($what).map($type)
                }
            )*
        }
    };
}

fixed! {
    /// An account id, 16 bytes.
    account, AccountId, array, "an account id";
    /// A device id, 16 bytes.
    device, DeviceId, array, "a device id";
    /// An incarnation, 8 bytes.
    incarnation, Incarnation, array, "an incarnation";
    /// A table tag, 16 bytes.
    tag, TableTag, array, "a table tag";
    /// A hash, 32 bytes.
    hash, Hash, array, "a hash";
    /// A blob's number, `u64`.
    seq, Seq, u64, "a seq";
    /// A manifest's number, `u64`.
    manifest_number, ManifestNumber, u64, "a manifest number";
    /// An epoch, `u32`.
    epoch, Epoch, u32, "an epoch";
    /// An index in a chain, `u64`.
    chain_index, ChainIndex, u64, "a chain index";
}
