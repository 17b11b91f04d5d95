//! Paths and queries from names that may hold any character.

use tidings_wire::{AppId, local::SOCKET_HOST};

/// The path of a call, built from whole segments.
#[derive(Debug, Clone)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn new(fixed: &str) -> Self {
        Self(fixed.to_owned())
    }

    pub(super) fn app(app: &AppId) -> Self {
        Self::new("/v1/apps").name(app.as_str())
    }

    pub(super) fn table(app: &AppId, table: &str) -> Self {
        Self::app(app).fixed("tables").name(table)
    }

    pub(super) fn row(app: &AppId, table: &str, id: &str) -> Self {
        Self::table(app, table).fixed("rows").name(id)
    }

    /// Appends a segment of the API.
    pub(super) fn fixed(mut self, segment: &str) -> Self {
        self.0.push('/');
        self.0.push_str(segment);
        self
    }

    /// Appends a segment that somebody else chose.
    pub(super) fn name(mut self, name: &str) -> Self {
        self.0.push('/');
        // A segment of dots alone would be taken for a step in the path.
        encode(name, matches!(name, "." | ".."), &mut self.0);
        self
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// The whole address of a path and its query.
pub(super) fn address(path: &str, query: &[(&str, String)]) -> String {
    let mut address = format!("http://{SOCKET_HOST}{path}");
    for (index, (name, value)) in query.iter().enumerate() {
        address.push(if index == 0 { '?' } else { '&' });
        encode(name, false, &mut address);
        address.push('=');
        encode(value, false, &mut address);
    }
    address
}

/// Percent-encodes all but the unreserved characters of RFC 3986.
fn encode(text: &str, dots: bool, into: &mut String) {
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
        if plain || (byte == b'.' && !dots) {
            into.push(char::from(byte));
        } else {
            into.push('%');
            for digit in [byte >> 4, byte & 0xf] {
                let hex = char::from_digit(u32::from(digit), 16).unwrap_or_default();
                into.push(hex.to_ascii_uppercase());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_one_segment() {
        let app: AppId = "notes".parse().unwrap();
        for (table, id, path) in [
            ("tasks", "1", "/v1/apps/notes/tables/tasks/rows/1"),
            ("org/model", "a b?c#d", "/v1/apps/notes/tables/org%2Fmodel/rows/a%20b%3Fc%23d"),
            ("..", "../x", "/v1/apps/notes/tables/%2E%2E/rows/..%2Fx"),
            (".", "100%", "/v1/apps/notes/tables/%2E/rows/100%25"),
            ("\u{1f4da}", "\0", "/v1/apps/notes/tables/%F0%9F%93%9A/rows/%00"),
        ] {
            let built = Path::row(&app, table, id).into_string();
            assert_eq!(built, path);
            assert!(address(&built, &[]).parse::<http::Uri>().is_ok(), "{built}");
        }
    }

    #[test]
    fn a_plus_in_a_query_stays_a_plus() {
        let address = address("/v1/x", &[("since", "10:00+02:00".into()), ("a&b", String::new())]);
        assert_eq!(address, "http://tidings.localhost/v1/x?since=10%3A00%2B02%3A00&a%26b=");
    }
}
