//! Operations: what each writes, and what it refuses.

use tidings_wire::Incarnation;

use super::*;
use crate::json::parse;
use crate::names::RowId;

fn at(millis: u64) -> Stamp {
    Stamp::new(millis, 0, Incarnation([1; 8]))
}

fn object(text: &str) -> Object {
    parse(text.as_bytes()).unwrap().as_object().unwrap().clone()
}

fn patch(text: &str) -> Patch {
    let id = RowId::new("r").unwrap();
    Patch::operators(parse(text.as_bytes()).unwrap(), &id).unwrap()
}

fn columns(written: &Written) -> String {
    written.row.columns().unwrap().to_string()
}

#[test]
fn a_row_lives_and_dies() {
    let none = Row::default();
    assert_eq!(update(&none, &patch("{}"), at(1)), Err(OpError::Missing));
    assert_eq!(delete(&none, at(1)), Err(OpError::Missing));

    let inserted = insert(&none, object(r#"{"a":1,"b":{"c":[]}}"#), at(1)).unwrap();
    assert_eq!(inserted.row, inserted.delta);
    assert_eq!(columns(&inserted), r#"{"a":1,"b":{"c":[]}}"#);
    assert_eq!(insert(&inserted.row, object("{}"), at(2)), Err(OpError::Exists));

    let set = patch(r#"{"$set":{"a":2,"n":null},"$unset":{"b":1}}"#);
    let updated = update(&inserted.row, &set, at(2)).unwrap();
    assert_eq!(columns(&updated), r#"{"a":2,"n":null}"#);
    assert_eq!(updated.row.version(), at(2));
    assert_eq!(updated.delta.cells().count(), 3, "only what was named");

    let replaced = put(&updated.row, object(r#"{"z":1}"#), at(3)).unwrap();
    assert_eq!(columns(&replaced), r#"{"z":1}"#);

    let gone = delete(&replaced.row, at(4)).unwrap();
    assert_eq!(gone.row.columns(), None);
    assert_eq!(gone.row.cells().count(), 0);
    assert_eq!(delete(&gone.row, at(5)), Err(OpError::Missing));
    assert_eq!(update(&gone.row, &set, at(5)), Err(OpError::Missing));
    assert_eq!(columns(&insert(&gone.row, object("{}"), at(5)).unwrap()), "{}");
}

#[test]
fn an_empty_patch_writes_nothing() {
    let row = put(&Row::default(), object(r#"{"a":1}"#), at(1)).unwrap().row;
    let written = update(&row, &patch("{}"), at(2)).unwrap();
    assert!(written.delta.is_empty());
    assert_eq!(written.row, row);
}

#[test]
fn a_delta_merges_to_the_row_elsewhere() {
    let row = put(&Row::default(), object(r#"{"a":1,"b":1}"#), at(1)).unwrap();
    let next = update(&row.row, &patch(r#"{"$set":{"b":2}}"#), at(2)).unwrap();
    let mut elsewhere = Row::default();
    for delta in [&next.delta, &row.delta] {
        elsewhere.merge(&Row::decode(&delta.encode()).unwrap());
    }
    assert_eq!(elsewhere, next.row);
}

#[test]
fn a_write_remembers_what_it_replaced() {
    let row = put(&Row::default(), object(r#"{"a":1}"#), at(1)).unwrap().row;
    let row = update(&row, &patch(r#"{"$set":{"b":1}}"#), at(2)).unwrap().row;
    let delta = update(&row, &patch(r#"{"$set":{"a":2,"c":1}}"#), at(3)).unwrap().delta;
    let replaced = |column| delta.cells[&Path::column(column)].base().map(Base::replaced);
    assert_eq!(replaced("a"), Some(at(1)));
    assert_eq!(replaced("c"), Some(at(1)), "nothing there since the row was cleared");
    let gone = delete(&row, at(4)).unwrap().delta;
    assert_eq!(gone.cleared.unwrap().replaced, at(2));
}

#[test]
fn rows_have_a_largest_size() {
    let text = |len| Object::from([("a", Value::from("x".repeat(len)))]);
    let none = Row::default();
    let fits = put(&none, text(limits::ROW - 8), at(1)).unwrap();
    assert_eq!(
        put(&none, text(limits::ROW), at(1)),
        Err(OpError::Row(InputError::TooLarge(limits::ROW + 8)))
    );
    let more = patch(r#"{"$set":{"b":"0123456789"}}"#);
    assert!(matches!(update(&fits.row, &more, at(2)), Err(OpError::Row(InputError::TooLarge(_)))));
    let swap = patch(r#"{"$set":{"b":"0123456789"},"$unset":["a"]}"#);
    assert_eq!(columns(&update(&fits.row, &swap, at(2)).unwrap()), r#"{"b":"0123456789"}"#);
    let endless = format!(r#"{{"$unset":["{}"]}}"#, "k".repeat(limits::ROW + 1));
    assert!(matches!(
        update(&fits.row, &patch(&endless), at(2)),
        Err(OpError::Row(InputError::TooLarge(_)))
    ));
}
