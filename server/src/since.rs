//! The `since` parameter: an instant, never a wall time.

use tidings_wire::Code;

use crate::clock::Millis;
use crate::failure::{Answer, Failure};

/// Reads Unix milliseconds, or RFC 3339 with an offset. What the server received at exactly this
/// instant passes.
///
/// A raw `+` in a query arrives as a space; where an offset can stand it is taken for what it
/// was. A time without an offset is refused: it could be meant in any zone.
///
/// # Errors
/// 400 naming the parameter.
pub fn parse(text: &str) -> Answer<Millis> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let millis = text.parse().map_err(|_| refused("the number is too large"))?;
        return Ok(Millis(millis));
    }
    let repaired = match text.rsplit_once(' ') {
        Some((time, offset)) if time.contains(':') && is_offset(offset) => {
            format!("{time}+{offset}")
        }
        _ => text.to_owned(),
    };
    let instant: jiff::Timestamp = repaired.parse().map_err(|_| {
        refused(
            "write RFC 3339 with an offset (2022-09-14T10:23:50+10:00, …Z) or Unix milliseconds",
        )
    })?;
    // A fraction of a millisecond rounds down: what was received within it still passes.
    Ok(Millis(u64::try_from(instant.as_millisecond()).unwrap_or(0)))
}

fn is_offset(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    matches!(shape.as_str(), "99:99" | "9999" | "99")
}

fn refused(message: &str) -> Failure {
    let failure = Failure::new(Code::InvalidField, format!("since: {message}"));
    failure.details(serde_json::json!({ "field": "since" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_the_same_however_they_are_written() {
        let expected = Millis(1_663_115_030_000);
        for text in [
            "2022-09-14T10:23:50+10:00",
            "2022-09-14T00:23:50Z",
            "2022-09-14T10:23:50 10:00",
            "2022-09-14 00:23:50Z",
            "1663115030000",
            "2022-09-13T20:23:50-04:00",
            "2022-09-14T00:23:50.0009Z",
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        assert_eq!(parse("1960-01-01T00:00:00Z"), Ok(Millis(0)));
    }

    #[test]
    fn wall_times_and_nonsense_are_refused() {
        for text in [
            "",
            "2026-03-29T02:30:00",
            "2026-03-29",
            "yesterday",
            "-5",
            "99999999999999999999",
            "2022-09-14T10:23:50 1:00",
        ] {
            let failure = parse(text).unwrap_err();
            assert_eq!(failure.code(), Code::InvalidField, "{text}");
        }
    }
}
