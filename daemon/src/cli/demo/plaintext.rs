//! Looking for the rows in what the server holds and in what crossed the wire.
//!
//! Sought are each string value of at least 6 bytes and each table and column name: as they are,
//! as JSON escapes them, and as UTF-16 of both byte orders. The demo and the tests use it.
//!
//! A find has to mean something, so two kinds of find do not count. *Chance*: sealed bytes are
//! random, and a form of n bytes occurs by itself in S searched bytes with a chance of S/256ⁿ.
//! Forms of fewer than 5 bytes are not sought alone (5 bytes in 10 MiB: one in 100,000); a short
//! name is still sought in quotes, behind its CBOR length, and as UTF-16. *Vocabulary*: words that
//! the protocol itself says, such as `date` in an HTTP header. What occurs already before the
//! first row was written ([`Search::ignore`]) is not taken for a find.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use serde_json::Value;

/// Shortest string value that is sought, in bytes.
pub const SHORTEST_VALUE: usize = 6;
/// Shortest form of a name that is sought, in bytes.
pub const SHORTEST_FORM: usize = 5;

/// The texts to look for.
#[derive(Debug, Default)]
pub struct Sought {
    values: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Sought {
    /// Adds the name of a table or column.
    pub fn name(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    /// Adds every string and every key in a value.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) if text.len() >= SHORTEST_VALUE => {
                self.values.insert(text.clone());
            }
            Value::Array(elements) => elements.iter().for_each(|element| self.value(element)),
            Value::Object(members) => members.iter().for_each(|(key, value)| {
                self.name(key);
                self.value(value);
            }),
            _ => {}
        }
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.values.len() + self.names.len()
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Prepares the search.
    ///
    /// # Errors
    /// There are more texts than an automaton can hold.
    pub fn search(&self) -> Result<Search, aho_corasick::BuildError> {
        let mut forms = BTreeMap::new();
        for value in &self.values {
            for form in value_forms(value) {
                forms.entry(form).or_insert_with(|| value.clone());
            }
        }
        for name in &self.names {
            for form in name_forms(name) {
                forms.entry(form).or_insert_with(|| name.clone());
            }
        }
        let automaton = AhoCorasick::new(forms.keys())?;
        let texts: Vec<String> = forms.into_values().collect();
        Ok(Search { automaton, ignored: vec![false; texts.len()], texts, bytes: 0 })
    }
}

/// A search over any number of byte strings.
#[derive(Debug)]
pub struct Search {
    automaton: AhoCorasick,
    texts: Vec<String>,
    ignored: Vec<bool>,
    bytes: u64,
}

/// A text that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub text: String,
    /// Where: a file's name.
    pub place: String,
}

impl Search {
    /// How many bytes were searched.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Texts that are ignored in some form.
    pub fn ignored(&self) -> BTreeSet<&str> {
        let pairs = self.texts.iter().zip(&self.ignored);
        pairs.filter(|(_, ignored)| **ignored).map(|(text, _)| text.as_str()).collect()
    }

    /// Ignores from now on whatever occurs in these bytes.
    pub fn ignore(&mut self, bytes: &[u8]) {
        for found in self.automaton.find_overlapping_iter(bytes) {
            if let Some(ignored) = self.ignored.get_mut(found.pattern().as_usize()) {
                *ignored = true;
            }
        }
    }

    /// The first sought text in these bytes.
    pub fn find(&mut self, bytes: &[u8]) -> Option<&str> {
        self.bytes += bytes.len() as u64;
        self.automaton.find_overlapping_iter(bytes).find_map(|found| {
            let index = found.pattern().as_usize();
            let ignored = self.ignored.get(index).copied().unwrap_or(false);
            if ignored { None } else { self.texts.get(index).map(String::as_str) }
        })
    }

    /// [`Search::ignore`] over all files below a directory.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn ignore_below(&mut self, dir: &Path) -> io::Result<()> {
        for path in files_below(dir)? {
            let Some(bytes) = read_if_there(&path)? else { continue };
            self.ignore(&bytes);
        }
        Ok(())
    }

    /// The first sought text in the names and contents of all files below a directory.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn find_below(&mut self, dir: &Path) -> io::Result<Option<Found>> {
        for path in files_below(dir)? {
            let place = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
            if let Some(text) = self.find(place.as_bytes()) {
                return Ok(Some(Found { text: text.to_owned(), place }));
            }
            let Some(bytes) = read_if_there(&path)? else { continue };
            if let Some(text) = self.find(&bytes) {
                return Ok(Some(Found { text: text.to_owned(), place }));
            }
        }
        Ok(None)
    }
}

/// All regular files below a directory, in order. One that goes away meanwhile is left out.
pub fn files_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            match entry.file_type()? {
                kind if kind.is_dir() => dirs.push(entry.path()),
                kind if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A store may remove a file between the listing and the reading.
fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn value_forms(text: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![text.as_bytes().to_vec()];
    forms.extend(escaped(text));
    forms.extend(utf16(text));
    forms
}

fn name_forms(name: &str) -> Vec<Vec<u8>> {
    let mut forms = value_forms(name);
    if name.len() < SHORTEST_FORM {
        forms.push(format!("\"{name}\"").into_bytes());
        // A CBOR text string below 24 bytes: major type 3 and the length in one byte.
        let mut cbor = vec![0x60 | u8::try_from(name.len()).unwrap_or(0x1f)];
        cbor.extend_from_slice(name.as_bytes());
        forms.push(cbor);
    }
    forms.retain(|form| form.len() >= SHORTEST_FORM);
    forms
}

/// How JSON writers write the text between quotes, where that differs from the text: escaping
/// what they must, or all that is not ASCII, in lower or upper case.
fn escaped(text: &str) -> Vec<Vec<u8>> {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let plain =
        quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default();
    let mut forms = vec![plain.to_owned()];
    if !text.is_ascii() {
        for upper in [false, true] {
            let mut form = String::new();
            for character in plain.chars() {
                if character.is_ascii() {
                    form.push(character);
                    continue;
                }
                for unit in character.encode_utf16(&mut [0; 2]) {
                    form.push_str(&match upper {
                        false => format!("\\u{unit:04x}"),
                        true => format!("\\u{unit:04X}"),
                    });
                }
            }
            forms.push(form);
        }
    }
    forms.retain(|form| form != text);
    forms.into_iter().map(String::into_bytes).collect()
}

fn utf16(text: &str) -> [Vec<u8>; 2] {
    [
        text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sought(value: serde_json::Value) -> Sought {
        let mut sought = Sought::default();
        sought.value(&value);
        sought
    }

    #[test]
    fn every_form_is_found() {
        let text = "Åke said \"naïve\" 🎬";
        let mut search = sought(serde_json::json!({"line": text, "no": "short"})).search().unwrap();
        let forms = [
            text.as_bytes().to_vec(),
            "Åke said \\\"naïve\\\" 🎬".as_bytes().to_vec(),
            br#"\u00c5ke said \"na\u00efve\" \ud83c\udfac"#.to_vec(),
            br#"\u00C5ke said \"na\u00EFve\" \uD83C\uDFAC"#.to_vec(),
            utf16(text)[0].clone(),
            utf16(text)[1].clone(),
        ];
        for form in forms {
            let mut bytes = b"around ".to_vec();
            bytes.extend_from_slice(&form);
            bytes.push(0);
            assert_eq!(search.find(&bytes), Some(text), "{}", String::from_utf8_lossy(&form));
        }
        assert_eq!(search.find(b"a short line"), None);
    }

    #[test]
    fn short_names_are_found_where_they_are_keys() {
        let mut search = sought(serde_json::json!({"date": 1, "id": 2})).search().unwrap();
        assert_eq!(search.find(b"date: Tue, 01 Dec 2026"), None);
        assert_eq!(search.find(br#"{"date":1}"#), Some("date"));
        assert_eq!(search.find(b"\xa1\x64date\x01"), Some("date"));
        assert_eq!(search.find(b"d\0a\0t\0e\0"), Some("date"));
        assert_eq!(search.find(br#"{"id":1}"#), None);
    }

    #[test]
    fn what_the_protocol_says_itself_is_no_find() {
        let mut search =
            sought(serde_json::json!({"title": "Accepted", "other": "Rejected"})).search().unwrap();
        search.ignore(b"HTTP/1.1 202 Accepted");
        assert_eq!(search.find(b"HTTP/1.1 202 Accepted"), None);
        assert_eq!(search.find(b"A\0c\0c\0e\0p\0t\0e\0d\0"), Some("Accepted"));
        assert_eq!(search.find(b"Rejected"), Some("Rejected"));
        assert_eq!(search.ignored().into_iter().collect::<Vec<_>>(), ["Accepted"]);
    }

    #[test]
    fn files_and_their_names_are_searched() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("deep")).unwrap();
        std::fs::write(dir.path().join("deep/blob"), [0, 1, 2]).unwrap();
        let mut search = sought(serde_json::json!({"a": "The Land Girls"})).search().unwrap();
        assert_eq!(search.find_below(dir.path()).unwrap(), None);
        std::fs::write(dir.path().join("deep/The Land Girls.db"), "").unwrap();
        let found = search.find_below(dir.path()).unwrap().unwrap();
        assert_eq!(found.place, "deep/The Land Girls.db");
    }
}
