//! What merging means, case by case; that it is lawful for any input is tested in `laws`.

use tidings_wire::Incarnation;

use super::*;
use crate::cell::{Base, Dot, Hanging, Increment, Sum};
use crate::json::parse;
use crate::names::RowId;
use crate::ops;
use crate::patch::Patch;
use crate::value::Value;

fn at(millis: u64) -> Stamp {
    Stamp::new(millis, 0, Incarnation([1; 8]))
}

fn json(text: &str) -> Value {
    parse(text.as_bytes()).unwrap()
}

fn object(text: &str) -> Object {
    json(text).as_object().unwrap().clone()
}

fn put(text: &str, stamp: u64) -> Row {
    ops::put(&Row::default(), object(text), at(stamp)).unwrap().delta
}

fn update(text: &str, stamp: u64) -> Row {
    let patch = Patch::merge(json(text), &RowId::new("r").unwrap()).unwrap();
    ops::update(&put("{}", 1), &patch, at(stamp)).unwrap().delta
}

fn delete(stamp: u64) -> Row {
    ops::delete(&put("{}", 1), at(stamp)).unwrap().delta
}

/// A cell under a path that only later releases write.
fn wrote(path: &str, value: Option<&str>, stamp: u64) -> Row {
    let base = Base { stamp: at(stamp), value: value.map(json), replaced: Stamp::ZERO };
    one(path, Cell { base: Some(base), hanging: None }, stamp)
}

fn one(path: &str, cell: Cell, stamp: u64) -> Row {
    Row { version: at(stamp), cells: BTreeMap::from([(Path::parse(path), cell)]), ..Row::default() }
}

fn incremented(path: &str, base: u64, who: u8, count: u64, sum: Sum) -> Row {
    let increments = BTreeMap::from([(Incarnation([who; 8]), Increment { count, sum })]);
    let hanging = Hanging { increments, ..Hanging::on(at(base)) };
    one(path, Cell { base: None, hanging: Some(Box::new(hanging)) }, 50 + count)
}

fn dotted(path: &str, base: u64, value: &str, added: &[u64], removed: &[u64]) -> Row {
    let stamps = |of: &[u64]| of.iter().map(|millis| at(*millis)).collect();
    let mut hanging = Hanging::on(at(base));
    hanging.put_dot(Dot { value: json(value), added: stamps(added), removed: stamps(removed) });
    one(path, Cell { base: None, hanging: Some(Box::new(hanging)) }, 60)
}

/// Merges in both orders, and checks that they agree.
fn merged(rows: &[Row]) -> Row {
    let fold = |rows: &mut dyn Iterator<Item = &Row>| {
        rows.fold(Row::default(), |mut all, row| {
            all.join(row);
            all
        })
    };
    let forth = fold(&mut rows.iter());
    assert_eq!(forth, fold(&mut rows.iter().rev()));
    forth
}

fn shown(rows: &[Row]) -> Option<String> {
    merged(rows).columns().map(|columns| columns.to_string())
}

#[test]
fn the_later_write_of_a_column_wins() {
    let rows = [put(r#"{"a":1,"b":1}"#, 1), update(r#"{"a":2}"#, 3), update(r#"{"a":9,"b":2}"#, 2)];
    assert_eq!(shown(&rows).unwrap(), r#"{"a":2,"b":2}"#);
    assert_eq!(merged(&rows).version(), at(3));
    assert_eq!(shown(&[put(r#"{"a":1}"#, 1), update(r#"{"a":null}"#, 2)]).unwrap(), "{}");
}

#[test]
fn a_whole_write_drops_what_is_older_and_keeps_what_is_newer() {
    let rows = [put(r#"{"a":1,"b":1}"#, 1), update(r#"{"c":3}"#, 4), put(r#"{"a":2}"#, 3)];
    assert_eq!(shown(&rows).unwrap(), r#"{"a":2,"c":3}"#);
    assert_eq!(merged(&rows).cells.len(), 2);
}

#[test]
fn a_deleted_row_stays_deleted_under_a_late_update() {
    let rows = [put(r#"{"a":1}"#, 1), delete(5), update(r#"{"a":2}"#, 4), update(r#"{"b":1}"#, 6)];
    let row = merged(&rows);
    assert_eq!(row.columns(), None);
    assert_eq!(row.deleted_at(), Some(at(5)));
    assert_eq!(row.cells.len(), 1, "only what is newer is kept");
    // An insert that was older than the deletion changes nothing; a newer one takes up what is
    // newer than itself.
    assert_eq!(shown(&[row.clone(), put(r#"{"a":3}"#, 4)]), None);
    let again = Stamp::new(5, 1, Incarnation([1; 8]));
    let again = ops::put(&Row::default(), object(r#"{"a":3}"#), again).unwrap().delta;
    assert_eq!(shown(&[row, again]).unwrap(), r#"{"a":3,"b":1}"#);
}

#[test]
fn a_row_that_only_updates_are_known_of_is_kept_and_not_shown() {
    let mut row = Row::default();
    assert_eq!(row.merge(&update(r#"{"a":2}"#, 4)), MergeOutcome::Hidden);
    assert_eq!(row.columns(), None);
    assert_eq!(row.merge(&put(r#"{"a":1,"b":1}"#, 1)), MergeOutcome::Shown);
    assert_eq!(row.columns().unwrap(), object(r#"{"a":2,"b":1}"#));
}

#[test]
fn a_merge_tells_how_much_changed() {
    let mut row = put(r#"{"a":1}"#, 2);
    assert_eq!(row.merge(&put(r#"{"a":1}"#, 2)), MergeOutcome::Unchanged);
    assert_eq!(row.merge(&put(r#"{"a":5}"#, 1)), MergeOutcome::Unchanged);
    assert_eq!(row.merge(&update(r#"{"a":1}"#, 3)), MergeOutcome::Version);
    assert_eq!(row.merge(&update(r#"{"a":1.0}"#, 4)), MergeOutcome::Shown);
    assert_eq!(row.merge(&delete(5)), MergeOutcome::Shown);
    assert_eq!(row.merge(&update(r#"{"a":1}"#, 6)), MergeOutcome::Hidden);
}

#[test]
fn writes_below_a_column_merge_with_it() {
    let base = put(r#"{"a":{"x":1,"y":1}}"#, 1);
    let below = wrote("a.x", Some("2"), 2);
    assert_eq!(shown(&[base.clone(), below.clone()]).unwrap(), r#"{"a":{"x":2,"y":1}}"#);
    // A newer write of the column takes what is below with it, an older one does not.
    let newer = update(r#"{"a":[]}"#, 3);
    assert_eq!(shown(&[base.clone(), below.clone(), newer]).unwrap(), r#"{"a":[]}"#);
    // Below a scalar or an array it makes an object; a removal there makes nothing.
    let scalar = put(r#"{"a":5}"#, 1);
    assert_eq!(shown(&[scalar.clone(), below]).unwrap(), r#"{"a":{"x":2}}"#);
    assert_eq!(shown(&[scalar.clone(), wrote("a.x", None, 2)]).unwrap(), r#"{"a":5}"#);
    assert_eq!(shown(&[base, wrote("a.x", None, 2)]).unwrap(), r#"{"a":{"y":1}}"#);
    assert_eq!(shown(&[scalar, wrote("n.m", None, 2)]).unwrap(), r#"{"a":5}"#);
}

#[test]
fn increments_add_up_on_their_base() {
    let base = put(r#"{"n":10}"#, 1);
    let mine = [1, 2].map(|count| incremented("n", 1, 1, count, Sum::Int(count as i128 * 3)));
    let yours = incremented("n", 1, 2, 1, Sum::Int(-1));
    let all = [base.clone(), mine[0].clone(), yours.clone(), mine[1].clone(), mine[0].clone()];
    assert_eq!(shown(&all).unwrap(), r#"{"n":15}"#);
    // A new base takes the increments on the old one with it.
    let reset = update(r#"{"n":0}"#, 5);
    let after = incremented("n", 5, 2, 2, Sum::Int(7));
    let all = [base.clone(), mine[1].clone(), yours, reset, after];
    assert_eq!(shown(&all).unwrap(), r#"{"n":7}"#);
    // They wait for a base that has not arrived.
    let early = incremented("n", 5, 2, 2, Sum::Int(7));
    assert_eq!(shown(&[base, early.clone()]).unwrap(), r#"{"n":10}"#);
    // Absent counts as 0, below a column too; other values stay.
    let empty = put("{}", 1);
    let one = |path| incremented(path, 1, 1, 1, Sum::Int(1));
    assert_eq!(shown(&[empty.clone(), one("n")]).unwrap(), r#"{"n":1}"#);
    assert_eq!(shown(&[put(r#"{"a":{"n":4}}"#, 1), one("a.n")]).unwrap(), r#"{"a":{"n":5}}"#);
    assert_eq!(shown(&[put(r#"{"n":"x"}"#, 1), one("n")]).unwrap(), r#"{"n":"x"}"#);
}

#[test]
fn sums_are_exact_and_stay_numbers() {
    let base = put(r#"{"n":9007199254740993}"#, 1);
    let total = |sum| shown(&[base.clone(), incremented("n", 1, 1, 1, sum)]).unwrap();
    assert_eq!(total(Sum::Int(1)), r#"{"n":9007199254740994}"#);
    assert_eq!(total(Sum::Float(0.0)), r#"{"n":9007199254740992.0}"#);
    assert_eq!(total(Sum::Int(i128::MAX)), r#"{"n":1.7014118346046923e+38}"#);
    let huge = [1, 2].map(|who| incremented("n", 1, who, 1, Sum::Float(f64::MAX)));
    let all = [base, huge[0].clone(), huge[1].clone()];
    assert_eq!(shown(&all).unwrap(), r#"{"n":1.7976931348623157e+308}"#);
}

#[test]
fn dots_make_a_set_in_which_an_add_wins() {
    let base = put(r#"{"s":["x","y"]}"#, 1);
    let add = dotted("s", 1, r#""z""#, &[3], &[]);
    assert_eq!(shown(&[base.clone(), add.clone()]).unwrap(), r#"{"s":["x","y","z"]}"#);
    // A removal takes what it saw, and not what was added unseen.
    let gone = dotted("s", 1, r#""x""#, &[], &[1]);
    assert_eq!(shown(&[base.clone(), add.clone(), gone.clone()]).unwrap(), r#"{"s":["y","z"]}"#);
    let unseen = dotted("s", 1, r#""x""#, &[4], &[]);
    assert_eq!(
        shown(&[base.clone(), add.clone(), gone, unseen]).unwrap(),
        r#"{"s":["y","z","x"]}"#
    );
    let removed = dotted("s", 1, r#""z""#, &[], &[3]);
    assert_eq!(shown(&[base, add.clone(), removed.clone()]).unwrap(), r#"{"s":["x","y"]}"#);
    // On nothing they make an array, on another value nothing.
    let empty = put("{}", 1);
    assert_eq!(shown(&[empty.clone(), add.clone()]).unwrap(), r#"{"s":["z"]}"#);
    assert_eq!(shown(&[empty, add.clone(), removed]).unwrap(), r#"{"s":[]}"#);
    assert_eq!(shown(&[put(r#"{"s":5}"#, 1), add]).unwrap(), r#"{"s":5}"#);
}

#[test]
fn what_waits_for_its_base_hides_nothing_until_then() {
    let before = put(r#"{"a":{"b":1},"n":10}"#, 1);
    let waiting = [incremented("n", 5, 1, 1, Sum::Int(3)), incremented("a", 5, 1, 1, Sum::Int(4))];
    let early =
        [before.clone(), waiting[0].clone(), waiting[1].clone(), wrote("a.b", Some("2"), 3)];
    assert_eq!(shown(&early).unwrap(), r#"{"a":{"b":2},"n":10}"#);
    let arrived = [merged(&early), update(r#"{"a":1,"n":0}"#, 5)];
    assert_eq!(shown(&arrived).unwrap(), r#"{"a":5,"n":3}"#);
    assert_eq!(merged(&arrived).cells.len(), 2);
}

#[test]
fn appending_keeps_the_oldest_stamp_replaced() {
    let seen = put(r#"{"a":1,"b":1}"#, 2);
    let patch = |text| Patch::merge(json(text), &RowId::new("r").unwrap()).unwrap();
    let first = ops::update(&seen, &patch(r#"{"a":2}"#), at(5)).unwrap();
    let second = ops::update(&first.row, &patch(r#"{"a":3,"b":2}"#), at(7)).unwrap();
    let replaced = |row: &Row, column| row.cells[&Path::column(column)].base().unwrap().replaced();
    assert_eq!(replaced(&second.delta, "a"), at(5), "by itself it replaces our own");
    let mut frozen = first.delta.clone();
    frozen.append(&second.delta);
    assert_eq!(replaced(&frozen, "a"), at(2), "others saw only what was before");
    assert_eq!(replaced(&frozen, "b"), at(2));

    let gone = ops::delete(&second.row, at(9)).unwrap();
    assert_eq!(gone.delta.cleared.unwrap().replaced, at(7));
    frozen.append(&gone.delta);
    assert_eq!(frozen.cleared.unwrap().replaced, at(2));
    let mut replica = gone.row.clone();
    replica.join(&frozen);
    assert_eq!(replica.cleared, frozen.cleared, "both remember the same");
}

#[test]
fn restamped_writes_keep_their_order_and_win_over_what_they_saw() {
    let theirs = put(r#"{"a":1,"b":1}"#, 6);
    let own = |stamp| update(&format!(r#"{{"a":{stamp}}}"#), stamp);
    // Two writes of ours at 5 and at 90, the latter far in the future.
    let mut replica = merged(&[theirs, own(5), own(90)]);
    let names = BTreeMap::from([(at(5), at(7)), (at(90), at(8))]);
    replica.restamp(&names);
    for stamp in [5, 90] {
        let mut delta = own(stamp);
        delta.restamp(&names);
        replica.join(&delta);
    }
    assert_eq!(replica.columns().unwrap(), object(r#"{"a":90,"b":1}"#));
    assert_eq!(replica.version(), at(8));
    assert_eq!(replica.cells[&Path::column("a")].stamp(), Some(at(8)));
}
