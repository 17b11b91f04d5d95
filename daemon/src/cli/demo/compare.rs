//! Whether two devices hold the same rows, and whether those are the rows of the file.

use std::collections::BTreeMap;

use serde_json::Value;
use tidings_wire::AppId;
use tidings_wire::local::{ID, Record, VER};

use crate::cli::connect::Local;
use crate::cli::export::Pages;
use crate::cli::failure::Failure;

/// The rows of an app by table and id.
pub type Rows = BTreeMap<String, BTreeMap<String, Record>>;

/// Reads all rows of an app.
///
/// # Errors
/// The daemon does not answer.
pub async fn read(local: &Local, app: &AppId) -> Result<Rows, Failure> {
    let mut rows = Rows::new();
    for table in local.ask(local.client.tables(app)).await?.tables {
        let of_table = rows.entry(table.name.clone()).or_default();
        let mut pages = Pages::new(local, app, &table.name);
        while let Some(records) = pages.next().await? {
            for record in records {
                let id = record.get(ID).and_then(Value::as_str).unwrap_or_default().to_owned();
                of_table.insert(id, record);
            }
        }
    }
    Ok(rows)
}

/// The first difference between two devices, in words; versions are compared by their stamp,
/// which is the same everywhere, and not by position, which is not.
pub fn difference(first: &Rows, second: &Rows) -> Option<String> {
    if first.keys().ne(second.keys()) {
        return Some(format!(
            "the tables are {:?} on the first and {:?} on the second",
            first.keys(),
            second.keys()
        ));
    }
    for ((table, first), second) in first.iter().zip(second.values()) {
        for (id, record) in first {
            match second.get(id) {
                None => return Some(format!("the second lacks row {id:?} of {table:?}")),
                Some(other) if shown(record) != shown(other) => {
                    return Some(format!("row {id:?} of {table:?} differs"));
                }
                Some(_) => {}
            }
        }
        if let Some(id) = second.keys().find(|id| !first.contains_key(*id)) {
            return Some(format!("the first lacks row {id:?} of {table:?}"));
        }
    }
    None
}

/// The first row of the file that a device does not hold as it is in the file.
pub fn difference_from_file(rows: &Rows, file: &Rows) -> Option<String> {
    for (table, expected) in file {
        let held = rows.get(table);
        let many = held.map_or(0, BTreeMap::len);
        if many != expected.len() {
            return Some(format!("{table:?} has {many} rows and the file {}", expected.len()));
        }
        for (id, record) in expected {
            let held = held.and_then(|table| table.get(id)).map(without_version);
            if held.as_ref() != Some(record) {
                return Some(format!("row {id:?} of {table:?} is not as in the file"));
            }
        }
    }
    None
}

/// A record and the part of its version that is the same on every device.
fn shown(record: &Record) -> (Record, Option<Value>) {
    let stamp = record.get(VER).and_then(|version| version.get("id")).cloned();
    (without_version(record), stamp)
}

fn without_version(record: &Record) -> Record {
    let mut record = record.clone();
    record.remove(VER);
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(id: &str, stamp: &str, value: i32) -> Rows {
        let record = serde_json::json!({"id": id, "n": value,
            "_ver": {"id": stamp, "position": stamp}});
        let table = BTreeMap::from([(id.to_owned(), record.as_object().unwrap().clone())]);
        Rows::from([("t".to_owned(), table)])
    }

    #[test]
    fn differences_have_a_place() {
        let same = rows("a", "1", 7);
        assert_eq!(difference(&same, &same), None);
        assert!(difference(&same, &rows("a", "2", 7)).unwrap().contains("differs"));
        assert!(difference(&same, &rows("a", "1", 8)).unwrap().contains("differs"));
        assert!(difference(&same, &rows("b", "1", 7)).unwrap().contains("lacks row \"a\""));
        assert!(difference(&same, &Rows::new()).unwrap().starts_with("the tables"));
        let mut more = same.clone();
        more.get_mut("t").unwrap().extend(rows("b", "1", 7)["t"].clone());
        assert!(difference(&same, &more).unwrap().contains("the first lacks row \"b\""));
    }
}
