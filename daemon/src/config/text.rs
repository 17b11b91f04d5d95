//! Settings as text: durations (`250ms`, `15s`, `7d`), sizes (`256MiB`) and counts, and which
//! known key an unknown one most resembles.

use std::time::Duration;

/// A type that a setting can have.
pub(super) trait Setting: Sized + PartialOrd {
    /// Reads the text.
    fn read(text: &str) -> Result<Self, String>;

    /// Writes the value as it can be read again.
    fn show(&self) -> String;

    /// Reads the text and holds it against its range.
    fn within(text: &str, floor: &str, ceiling: &str) -> Result<Self, String> {
        let value = Self::read(text)?;
        if value < Self::read(floor)? {
            return Err(format!("the floor is {floor}"));
        }
        if value > Self::read(ceiling)? {
            return Err(format!("the ceiling is {ceiling}"));
        }
        Ok(value)
    }
}

const DURATIONS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Setting for Duration {
    fn read(text: &str) -> Result<Self, String> {
        with_unit(text, &DURATIONS, None)
            .map(Self::from_millis)
            .ok_or_else(|| "expected a duration such as 250ms, 15s, 10m, 2h or 7d".to_owned())
    }

    fn show(&self) -> String {
        let millis = u64::try_from(self.as_millis()).unwrap_or(u64::MAX);
        show_with_unit(millis, &DURATIONS).unwrap_or_else(|| "0s".to_owned())
    }
}

const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Setting for u64 {
    fn read(text: &str) -> Result<Self, String> {
        with_unit(text, &SIZES, Some(1))
            .ok_or_else(|| "expected a size such as 4096, 64KiB or 256MiB".to_owned())
    }

    fn show(&self) -> String {
        show_with_unit(*self, &SIZES).unwrap_or_else(|| "0B".to_owned())
    }
}

impl Setting for usize {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "expected a whole number".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

fn with_unit(text: &str, units: &[(&str, u64)], bare: Option<u64>) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit.trim_start() {
        "" => bare?,
        unit => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The value in the largest unit that divides it; none for zero.
fn show_with_unit(value: u64, units: &[(&str, u64)]) -> Option<String> {
    let (name, factor) =
        units.iter().find(|(_, factor)| value > 0 && value.is_multiple_of(*factor))?;
    Some(format!("{}{name}", value / factor))
}

/// The known key that an unknown one most resembles, if any does.
pub(super) fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let best = known.iter().map(|known| (distance(key, known), *known)).min()?;
    (best.0 <= 2 + key.len() / 4).then_some(best.1)
}

/// Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let next = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = next;
            left = next;
        }
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_back() {
        for text in ["250ms", "15s", "10m", "2h", "7d"] {
            assert_eq!(Duration::read(text).unwrap().show(), text);
        }
        for text in ["4KiB", "256MiB", "3B"] {
            assert_eq!(u64::read(text).unwrap().show(), text);
        }
        assert_eq!(u64::read("4096").unwrap(), 4096);
        for text in ["", "s", "15", "1.5s", "-1s", "1 week", "99999999999999999999d"] {
            assert!(Duration::read(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(nearest("zzzzzzzzzz", &["api.drain"]), None);
    }
}
