//! Identifiers and counters, each a type of its own.
//!
//! Byte ids print as lower-case hexadecimal and parse only from exactly that form, so that one id
//! has one spelling (upper case, spaces and short forms are refused). CBOR holds them as byte
//! strings, JSON as text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An id that does not have the one spelling its type allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {expected}")]
pub struct ParseIdError {
    what: &'static str,
    expected: &'static str,
}

impl ParseIdError {
    pub(crate) const fn new(what: &'static str, expected: &'static str) -> Self {
        Self { what, expected }
    }
}

/// Defines a fixed-size byte id: hexadecimal text, byte-string CBOR, ordered by its bytes.
macro_rules! byte_id {
    ($(#[$doc:meta])* $name:ident, $len:literal, $what:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// Length in bytes.
            pub const LEN: usize = $len;

            /// The bytes of the id.
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }

            /// Reads an id from exactly its number of bytes.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                Some(Self(bytes.try_into().ok()?))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let mut bytes = [0; $len];
                parse_hex(text, &mut bytes)
                    .map(|()| Self(bytes))
                    .ok_or(ParseIdError { what: $what, expected: $expected })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl<C> minicbor::Encode<C> for $name {
            fn encode<W: minicbor::encode::Write>(
                &self,
                encoder: &mut minicbor::Encoder<W>,
                _: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                encoder.bytes(&self.0)?.ok()
            }
        }

        impl<'b, C> minicbor::Decode<'b, C> for $name {
            fn decode(
                decoder: &mut minicbor::Decoder<'b>,
                _: &mut C,
            ) -> Result<Self, minicbor::decode::Error> {
                let bytes = decoder.bytes()?;
                Self::from_slice(bytes)
                    .ok_or_else(|| minicbor::decode::Error::message($expected))
            }
        }
    };
}

byte_id!(
    /// An account: BLAKE3 of its genesis entry (docs/protocol.md, device chain).
    AccountId, 16, "an account id", "32 lower-case hexadecimal digits"
);
byte_id!(
    /// A device: BLAKE3 of its two public keys.
    DeviceId, 16, "a device id", "32 lower-case hexadecimal digits"
);
byte_id!(
    /// What a server knows of a table: a keyed hash of its name, one per account and app.
    TableTag, 16, "a table tag", "32 lower-case hexadecimal digits"
);
byte_id!(
    /// A server: BLAKE3 of its Ed25519 token key; pinned when a device first meets it.
    ServerId, 32, "a server id", "64 lower-case hexadecimal digits"
);
byte_id!(
    /// BLAKE3 of the signed bytes of a blob, manifest, chain entry or run statement.
    Hash, 32, "a hash", "64 lower-case hexadecimal digits"
);
byte_id!(
    /// One life of a server's store: random, new after a restore.
    Generation, 8, "a generation", "16 lower-case hexadecimal digits"
);
byte_id!(
    /// One start of a server over its store: random, recorded with the head at that moment.
    StartId, 8, "a start id", "16 lower-case hexadecimal digits"
);
byte_id!(
    /// One replica of a device: random, new when the replica was copied, restored or disagrees
    /// with the server about its lanes.
    Incarnation, 8, "an incarnation", "16 lower-case hexadecimal digits"
);
byte_id!(
    /// When an operation happened: 48 bits of Unix milliseconds, 16 of counter, then the
    /// incarnation that wrote it. The order of the bytes is the order of stamps.
    Stamp, 16, "a stamp", "32 lower-case hexadecimal digits"
);

impl Hash {
    /// What precedes the first blob of a lane and the genesis entry of a chain.
    pub const ZERO: Self = Self([0; 32]);
}

impl Stamp {
    /// Below every stamp that anything was written with.
    pub const ZERO: Self = Self([0; 16]);

    /// The first millisecond that no stamp may reach (2^47): a blob that holds one does not open.
    pub const MILLIS_LIMIT: u64 = 1 << 47;

    /// Joins a time in Unix milliseconds (below 2^48), a counter and an incarnation.
    pub fn new(millis: u64, counter: u16, incarnation: Incarnation) -> Self {
        let mut bytes = [0; 16];
        let clock = (millis << 16) | u64::from(counter);
        bytes[..8].copy_from_slice(&clock.to_be_bytes());
        bytes[8..].copy_from_slice(&incarnation.0);
        Self(bytes)
    }

    /// Time and counter as one number: milliseconds in the upper 48 bits.
    pub fn clock(&self) -> u64 {
        let mut clock = [0; 8];
        clock.copy_from_slice(&self.0[..8]);
        u64::from_be_bytes(clock)
    }

    /// Unix milliseconds.
    pub fn millis(&self) -> u64 {
        self.clock() >> 16
    }

    /// The replica that wrote it.
    pub fn incarnation(&self) -> Incarnation {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[8..]);
        Incarnation(bytes)
    }
}

/// Defines a counter: decimal text, unsigned integer in CBOR and JSON.
macro_rules! counter {
    ($(#[$doc:meta])* $name:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default,
            Serialize, Deserialize, minicbor::Encode, minicbor::Decode,
        )]
        #[serde(transparent)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                parse_decimal(text)
                    .and_then(|number| number.try_into().ok())
                    .map(Self)
                    .ok_or(ParseIdError { what: stringify!($name), expected: "a decimal number" })
            }
        }
    };
}

counter!(
    /// Where a push or a run stands in a server's log; rises within a generation, may skip.
    Position, u64
);
counter!(
    /// Number of a blob in its lane, from 1, without holes.
    Seq, u64
);
counter!(
    /// Number of a manifest of one (app, device, incarnation); rises, may skip.
    ManifestNumber, u64
);
counter!(
    /// Number of an epoch secret of an account, from 0.
    Epoch, u32
);
counter!(
    /// Number of an entry in an account's device chain; the genesis is 0.
    ChainIndex, u64
);
counter!(
    /// Number of a pairing mailbox; the digits before the words of a pairing code.
    Nameplate, u32
);

/// The name of an app's data: `[a-z0-9][a-z0-9._-]{0,63}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AppId(Box<str>);

impl AppId {
    /// Longest app id, in bytes.
    pub const MAX_LEN: usize = 64;

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AppId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = (1..=Self::MAX_LEN).contains(&text.len())
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'));
        fits.then(|| Self(text.into())).ok_or(ParseIdError {
            what: "an app id",
            expected: "1 to 64 characters of a-z, 0-9, '.', '_', '-', the first a letter or digit",
        })
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppId({})", self.0)
    }
}

impl<'de> Deserialize<'de> for AppId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl<C> minicbor::Encode<C> for AppId {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.str(&self.0)?.ok()
    }
}

impl<'b, C> minicbor::Decode<'b, C> for AppId {
    fn decode(
        decoder: &mut minicbor::Decoder<'b>,
        _: &mut C,
    ) -> Result<Self, minicbor::decode::Error> {
        decoder.str()?.parse().map_err(|_| minicbor::decode::Error::message("not an app id"))
    }
}

/// Fills `bytes` from exactly twice as many lower-case hexadecimal digits.
fn parse_hex(text: &str, bytes: &mut [u8]) -> Option<()> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != bytes.len() * 2 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(())
}

/// Reads plain decimal digits: no sign, no spaces, no leading zeros but `0` itself.
fn parse_decimal(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if canonical && digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let id: DeviceId = "00112233445566778899aabbccddeeff".parse().unwrap();
        assert_eq!(id.to_string(), "00112233445566778899aabbccddeeff");
        for wrong in [
            "",
            "00112233445566778899AABBCCDDEEFF",
            " 00112233445566778899aabbccddeeff",
            "00112233445566778899aabbccddee",
            "00112233445566778899aabbccddeefff0",
            "0x112233445566778899aabbccddeeff0",
        ] {
            assert!(wrong.parse::<DeviceId>().is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn app_ids_are_strict() {
        for right in ["a", "0", "notes", "org.example.notes_2-x", &"a".repeat(64)] {
            assert_eq!(right.parse::<AppId>().unwrap().as_str(), right);
        }
        for wrong in ["", ".", "_account", "-a", "A", "a/b", "a b", "a\0", "ä", &"a".repeat(65)] {
            assert!(wrong.parse::<AppId>().is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn counters_are_plain_decimals() {
        assert_eq!("18446744073709551615".parse(), Ok(Position(u64::MAX)));
        for wrong in ["", "-1", "+1", " 1", "01", "1.0", "18446744073709551616"] {
            assert!(wrong.parse::<Position>().is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn stamps_order_by_time_then_counter_then_incarnation() {
        let low = Incarnation([0; 8]);
        let high = Incarnation([9; 8]);
        let rising = [
            Stamp::ZERO,
            Stamp::new(1, 0, high),
            Stamp::new(1, 1, low),
            Stamp::new(1, 1, high),
            Stamp::new(2, 0, low),
        ];
        assert!(rising.is_sorted());
        assert_eq!(Stamp::new(5, 7, high).millis(), 5);
        assert_eq!(Stamp::new(5, 7, high).incarnation(), high);
    }
}
