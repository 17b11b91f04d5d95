//! Configuration values: how each kind is written, read and held to its range.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The type of a key and the range it may take.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Free text.
    Text,
    /// A path.
    Path,
    /// `IP:PORT`.
    Address,
    /// `true` or `false`.
    Bool,
    /// One of a few words.
    OneOf(&'static [&'static str]),
    /// Addresses or networks.
    List,
    /// `ENGINE:DIR`.
    Store,
    /// `250ms`, `30s`, `15m`, `1h`, in milliseconds between two bounds.
    Duration {
        /// Least, in milliseconds.
        floor: u64,
        /// Most, in milliseconds.
        ceiling: u64,
    },
    /// A whole number between two bounds.
    Count {
        /// Least.
        floor: u64,
        /// Most.
        ceiling: u64,
    },
    /// `4096`, `4KiB`, `4MiB`, `4GiB`, `4TiB`, in bytes between two bounds.
    Bytes {
        /// Least, in bytes.
        floor: u64,
        /// Most, in bytes.
        ceiling: u64,
    },
    /// `10/s burst 300`.
    Rate,
}

/// A value of some kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// [`Kind::Text`] and [`Kind::OneOf`].
    Text(String),
    /// [`Kind::Path`].
    Path(PathBuf),
    /// [`Kind::Address`].
    Address(SocketAddr),
    /// [`Kind::Bool`].
    Bool(bool),
    /// [`Kind::List`].
    Networks(Vec<Network>),
    /// [`Kind::Store`].
    Store(StoreLocation),
    /// [`Kind::Duration`].
    Duration(Duration),
    /// [`Kind::Count`] and [`Kind::Bytes`].
    Number(u64),
    /// [`Kind::Rate`].
    Rate(Option<Rate>),
}

/// Which engine keeps the store, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// sled in a directory.
    Sled(PathBuf),
    /// redb in a directory.
    Redb(PathBuf),
    /// Memory, lost at exit.
    Memory,
}

impl StoreLocation {
    /// The directory, where there is one.
    pub fn dir(&self) -> Option<&std::path::Path> {
        match self {
            Self::Sled(dir) | Self::Redb(dir) => Some(dir),
            Self::Memory => None,
        }
    }
}

impl std::fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sled(dir) => write!(f, "sled:{}", dir.display()),
            Self::Redb(dir) => write!(f, "redb:{}", dir.display()),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

/// How many of something may happen in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Time after which one more is allowed.
    pub period: Duration,
    /// How many may come at once.
    pub burst: u32,
}

/// A network: an address and how many of its leading bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether the address lies in it. IPv4 addresses mapped into IPv6 count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let shift = 32 - u32::from(self.bits.min(32));
                let mask = u32::MAX.checked_shl(shift).unwrap_or(0);
                net.to_bits() & mask == ip.to_bits() & mask
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let shift = 128 - u32::from(self.bits.min(128));
                let mask = u128::MAX.checked_shl(shift).unwrap_or(0);
                net.to_bits() & mask == ip.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl std::str::FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("{text:?} is not an address or network such as 10.0.0.0/8"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= most)
                .ok_or_else(|| format!("{text:?}: the prefix is a number of at most {most}"))?,
        };
        Ok(Self { address, bits })
    }
}

impl Kind {
    /// Reads a value.
    ///
    /// # Errors
    /// When the text has another form or lies outside of the range; the message names both.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        match *self {
            Self::Text => Ok(Value::Text(text.to_owned())),
            Self::Path if text.is_empty() => Err("a path is not empty".to_owned()),
            Self::Path => Ok(Value::Path(PathBuf::from(text))),
            Self::Address => text.parse().map(Value::Address).map_err(|_| {
                format!("{text:?} is not IP:PORT, such as 127.0.0.1:7843 or [::]:443")
            }),
            Self::Bool => match text {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                _ => Err(format!("{text:?} is neither true nor false")),
            },
            Self::OneOf(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            Self::OneOf(words) => Err(format!("{text:?} is none of: {}", words.join(", "))),
            Self::List => parse_list(text).map(Value::Networks),
            Self::Store => parse_store(text).map(Value::Store),
            Self::Duration { floor, ceiling } => {
                let millis = parse_unit(text, DURATIONS)
                    .ok_or_else(|| format!("{text:?} is not a time such as 250ms, 30s, 15m, 1h"))?;
                in_range(millis, floor, ceiling, |millis| show_unit(millis, DURATIONS))?;
                Ok(Value::Duration(Duration::from_millis(millis)))
            }
            Self::Count { floor, ceiling } => {
                let number = text
                    .replace('_', "")
                    .parse()
                    .map_err(|_| format!("{text:?} is not a whole number"))?;
                in_range(number, floor, ceiling, |number| number.to_string())?;
                Ok(Value::Number(number))
            }
            Self::Bytes { floor, ceiling } => {
                let number = parse_unit(text, SIZES)
                    .ok_or_else(|| format!("{text:?} is not a size such as 4096, 64KiB, 4MiB"))?;
                in_range(number, floor, ceiling, |number| show_unit(number, SIZES))?;
                Ok(Value::Number(number))
            }
            Self::Rate => parse_rate(text).map(Value::Rate),
        }
    }

    /// How the file writes the type and its range, for the template.
    pub fn describe(&self) -> String {
        match *self {
            Self::Duration { floor, ceiling } => {
                format!("{} to {}", show_unit(floor, DURATIONS), show_unit(ceiling, DURATIONS))
            }
            Self::Count { floor, ceiling } => format!("{floor} to {ceiling}"),
            Self::Bytes { floor, ceiling } => {
                format!("{} to {}", show_unit(floor, SIZES), show_unit(ceiling, SIZES))
            }
            Self::OneOf(words) => words.join(" or "),
            Self::Text
            | Self::Path
            | Self::Address
            | Self::Bool
            | Self::List
            | Self::Store
            | Self::Rate => String::new(),
        }
    }
}

const DURATIONS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZES: &[(&str, u64)] =
    &[("", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

fn parse_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.replace('_', "").parse::<u64>().ok()?.checked_mul(*factor)
}

/// The largest unit that shows the number whole.
pub(crate) fn show_unit(number: u64, units: &[(&str, u64)]) -> String {
    let whole = |(_, factor): &&(&str, u64)| number.is_multiple_of(*factor) && number >= *factor;
    let (name, factor) = units.iter().rev().find(whole).unwrap_or(&("", 1));
    let name = if number == 0 { units.first().map_or("", |unit| unit.0) } else { name };
    format!("{}{name}", number / factor)
}

fn in_range(number: u64, low: u64, high: u64, show: impl Fn(u64) -> String) -> Result<(), String> {
    if number < low {
        return Err(format!("{} is below the least, {}", show(number), show(low)));
    }
    if number > high {
        return Err(format!("{} is above the most, {}", show(number), show(high)));
    }
    Ok(())
}

/// Reads `["a", "b"]` as the file loader writes it, or `a, b` as the environment has it.
fn parse_list(text: &str) -> Result<Vec<Network>, String> {
    text.trim_start_matches('[')
        .trim_end_matches(']')
        .split(',')
        .map(|item| item.trim().trim_matches('"'))
        .filter(|item| !item.is_empty())
        .map(str::parse)
        .collect()
}

fn parse_store(text: &str) -> Result<StoreLocation, String> {
    let hint = "a store is \"sled:DIR\", \"redb:DIR\" or \"memory:\"";
    match text.split_once(':') {
        Some(("memory", "")) => Ok(StoreLocation::Memory),
        Some(("sled", dir)) if !dir.is_empty() => Ok(StoreLocation::Sled(dir.into())),
        Some(("redb", dir)) if !dir.is_empty() => Ok(StoreLocation::Redb(dir.into())),
        Some(("postgres" | "postgresql", _)) => {
            Err(format!("PostgreSQL is not part of this version; {hint}"))
        }
        _ => Err(format!("{text:?}: {hint}")),
    }
}

fn parse_rate(text: &str) -> Result<Option<Rate>, String> {
    if text == "off" {
        return Ok(None);
    }
    let rate = || {
        let (rate, burst) = text.split_once(" burst ").map_or((text, None), |(r, b)| (r, Some(b)));
        let (count, unit) = rate.split_once('/')?;
        let count: u32 = count.trim().parse().ok().filter(|count| *count > 0)?;
        let window = match unit.trim() {
            "s" => Duration::from_secs(1),
            "min" => Duration::from_secs(60),
            "h" => Duration::from_secs(3_600),
            _ => return None,
        };
        let burst = match burst {
            None => count,
            Some(burst) => burst.trim().parse().ok().filter(|burst| *burst > 0)?,
        };
        let period = window.checked_div(count).filter(|period| !period.is_zero())?;
        Some(Rate { period, burst })
    };
    rate().map(Some).ok_or_else(|| {
        format!("{text:?} is not a rate such as \"10/s\", \"10/min burst 30\" or \"off\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units_and_ranges() {
        let kind = Kind::Duration { floor: 2_000, ceiling: 60_000 };
        assert_eq!(kind.parse("15s"), Ok(Value::Duration(Duration::from_secs(15))));
        assert_eq!(kind.parse("1m"), Ok(Value::Duration(Duration::from_secs(60))));
        assert_eq!(kind.parse("1s"), Err("1s is below the least, 2s".to_owned()));
        assert_eq!(kind.parse("2m"), Err("2m is above the most, 1m".to_owned()));
        for wrong in ["", "5", "5 parsecs", "-1s", "1.5s", "99999999999999999999s"] {
            assert!(kind.parse(wrong).is_err(), "{wrong:?} was taken");
        }
        let kind = Kind::Bytes { floor: 0, ceiling: 1 << 30 };
        assert_eq!(kind.parse("64KiB"), Ok(Value::Number(64 << 10)));
        assert_eq!(kind.parse("10_000"), Ok(Value::Number(10_000)));
        assert!(kind.parse("64KB").is_err());
    }

    #[test]
    fn rates_have_a_burst() {
        let rate = |text| match Kind::Rate.parse(text) {
            Ok(Value::Rate(rate)) => rate,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(rate("off"), None);
        assert_eq!(rate("10/s"), Some(Rate { period: Duration::from_millis(100), burst: 10 }));
        assert_eq!(
            rate("6/min burst 30"),
            Some(Rate { period: Duration::from_secs(10), burst: 30 })
        );
        for wrong in ["", "10", "0/s", "10/day", "10/s burst 0", "x/s"] {
            assert!(Kind::Rate.parse(wrong).is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn networks_hold_their_addresses() {
        let net: Network = "10.0.0.0/8".parse().unwrap();
        assert!(net.contains("10.9.8.7".parse().unwrap()));
        assert!(net.contains("::ffff:10.9.8.7".parse().unwrap()));
        assert!(!net.contains("11.0.0.1".parse().unwrap()));
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("8.8.8.8".parse().unwrap()));
        let one: Network = "::1".parse().unwrap();
        assert!(one.contains("::1".parse().unwrap()) && !one.contains("::2".parse().unwrap()));
        assert!("10.0.0.0/33".parse::<Network>().is_err());
    }
}
