//! Laws that hold for any input: merging, encodings, the order of values and their keys.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use tidings_wire::{Incarnation, Stamp, limits};

use crate::body::{Body, pack};
use crate::cbor::{decode_value, encode_value};
use crate::cell::{Base, Cell, Dot, Hanging, Increment, Sum};
use crate::json;
use crate::names::{RowId, TableName};
use crate::number::Number;
use crate::object::Object;
use crate::order::{Direction, compare, sort_key, value_key};
use crate::path::Path;
use crate::row::{Cleared, Life, MergeOutcome, Row};
use crate::split::split;
use crate::value::Value;

pub(crate) fn number() -> impl Strategy<Value = Number> {
    let near =
        |base: i128| (-2_i128..3).prop_filter_map("in range", move |by| Number::integer(base + by));
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        any::<f64>().prop_filter_map("finite", Number::float),
        // Where floats and integers meet.
        near(0),
        near(1 << 53),
        near(i128::from(i64::MAX)),
        near(i128::from(i64::MIN)),
        near(i128::from(u64::MAX)),
        (-3_i64..4).prop_filter_map("finite", |n| Number::float(n as f64)),
        any::<u64>().prop_filter_map("finite", |n| Number::float(n as f64)),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![any::<String>(), "[a-b\0\u{1}\u{ff}]{0,3}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number().prop_map(Value::Number),
        text.prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec(("[a-c]{0,2}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Few values, so that equal keys and ties occur.
fn small_value() -> impl Strategy<Value = Value> {
    prop::sample::select(
        &["1", "1.0", "0", "-0.0", "null", "\"x\"", "[1,2,1]", "[\"x\"]", "{\"b\":1}", "{}"][..],
    )
    .prop_map(|text| json::parse(text.as_bytes()).unwrap())
}

/// Few stamps, so that they meet.
fn stamp() -> impl Strategy<Value = Stamp> {
    (1_u64..7, 0_u8..2).prop_map(|(millis, who)| Stamp::new(millis, 0, Incarnation([who; 8])))
}

fn older(stamp: Stamp) -> impl Strategy<Value = Stamp> {
    (0..stamp.millis())
        .prop_map(|millis| Stamp::new(millis, 0, Incarnation([u8::from(millis > 0); 8])))
}

fn sum() -> impl Strategy<Value = Sum> {
    prop_oneof![
        (-2_i128..3).prop_map(Sum::Int),
        any::<i128>().prop_map(Sum::Int),
        (-2_i8..3).prop_map(|value| Sum::Float(value.into())),
        any::<f64>()
            .prop_filter_map("finite", |value| value.is_finite().then_some(Sum::Float(value))),
    ]
}

fn hanging() -> impl Strategy<Value = Hanging> {
    let increments = btree_map(
        (0_u8..3).prop_map(|who| Incarnation([who; 8])),
        (0_u64..3, sum()).prop_map(|(count, sum)| Increment { count, sum }),
        0..3,
    );
    let dot = (small_value(), btree_set(stamp(), 0..3), btree_set(stamp(), 0..3)).prop_filter_map(
        "says something",
        |(value, added, removed)| {
            let added: BTreeSet<_> = &added - &removed;
            (!added.is_empty() || !removed.is_empty()).then_some(Dot { value, added, removed })
        },
    );
    let on = prop_oneof![1 => Just(Stamp::ZERO), 9 => stamp()];
    (on, increments, vec(dot, 0..4)).prop_map(|(on, increments, dots)| {
        let mut hanging = Hanging { increments, ..Hanging::on(on) };
        dots.into_iter().for_each(|dot| hanging.put_dot(dot));
        hanging
    })
}

fn cell() -> impl Strategy<Value = Cell> {
    let base = (stamp(), option::of(small_value())).prop_flat_map(|(stamp, value)| {
        older(stamp).prop_map(move |replaced| Base { stamp, value: value.clone(), replaced })
    });
    let hanging = hanging().prop_map(|hanging| (!hanging.is_empty()).then(|| Box::new(hanging)));
    (option::weighted(0.8, base), hanging).prop_map(|(base, hanging)| Cell { base, hanging })
}

fn path() -> impl Strategy<Value = Path> {
    vec(prop::sample::select(&["a", "b", ""][..]), 1..4)
        .prop_map(|keys| Path::new(keys.into_iter().map(Box::from)).unwrap())
}

/// Any row that can be decoded: what an honest replica holds, and what a hostile device sends.
pub(crate) fn row() -> impl Strategy<Value = Row> {
    let cleared = stamp()
        .prop_flat_map(|stamp| older(stamp).prop_map(move |replaced| Cleared { stamp, replaced }));
    (
        prop_oneof![Just(Stamp::ZERO), stamp()],
        option::of((stamp(), any::<bool>()).prop_map(|(stamp, alive)| Life { stamp, alive })),
        option::of(cleared),
        btree_map(path(), cell(), 0..6),
    )
        .prop_map(|(version, life, cleared, cells)| {
            let mut row = Row { version, life, cleared, cells };
            row.drop_older();
            row
        })
}

fn joined(a: &Row, b: &Row) -> Row {
    let mut joined = a.clone();
    joined.join(b);
    joined
}

proptest! {
    #[test]
    fn merge_is_commutative(a in row(), b in row()) {
        prop_assert_eq!(joined(&a, &b), joined(&b, &a));
    }

    #[test]
    fn merge_is_associative(a in row(), b in row(), c in row()) {
        prop_assert_eq!(joined(&joined(&a, &b), &c), joined(&a, &joined(&b, &c)));
    }

    #[test]
    fn to_take_a_state_is_to_join_it(a in row(), b in row()) {
        for into in [Row::default(), a] {
            let mut taken = into.clone();
            let changed = taken.take(b.clone());
            prop_assert_eq!(changed, into.clone().join(&b));
            prop_assert_eq!(taken, joined(&into, &b));
        }
    }

    #[test]
    fn merge_is_idempotent(a in row(), b in row()) {
        let both = joined(&a, &b);
        for known in [&a, &b, &both] {
            let mut again = both.clone();
            prop_assert!(!again.join(known));
            prop_assert_eq!(&again, &both);
        }
    }

    #[test]
    fn merge_tells_what_changed(a in row(), b in row()) {
        let mut after = a.clone();
        let outcome = after.merge(&b);
        prop_assert_eq!(outcome != MergeOutcome::Unchanged, after != a);
        prop_assert_eq!(outcome == MergeOutcome::Shown, after.columns() != a.columns());
        if outcome == MergeOutcome::Version {
            prop_assert!(after.version() > a.version());
            prop_assert!(after.is_alive());
        }
    }

    #[test]
    fn many_deltas_merge_alike_in_any_order(
        rows in vec(row(), 1..8),
        order in any::<prop::sample::Index>(),
    ) {
        let merged = rows.iter().fold(Row::default(), |all, row| joined(&all, row));
        let mut turned = rows.clone();
        turned.rotate_left(order.index(rows.len()));
        turned.extend(rows.iter().rev().cloned());
        prop_assert_eq!(turned.iter().fold(Row::default(), |all, row| joined(&all, row)), merged);
    }

    #[test]
    fn rows_have_one_encoding(a in row(), b in row()) {
        let bytes = a.encode();
        prop_assert_eq!(Row::decode(&bytes).unwrap(), a.clone());
        prop_assert_eq!(bytes == b.encode(), a == b);
        let both = joined(&a, &b);
        prop_assert_eq!(Row::decode(&both.encode()), Ok(both));
    }

    #[test]
    fn a_split_row_merges_to_itself(a in row(), limit in 0_usize..400) {
        let pieces = split(&a, limit);
        for piece in &pieces {
            prop_assert_eq!(&Row::decode(&piece.encode()).unwrap(), piece);
            let things: usize = piece.cells.values().map(|cell| {
                let hanging = cell.hanging.as_ref();
                let hanging = hanging.map_or(0, |on| on.increments.len() + on.dots.len());
                usize::from(cell.base.is_some()) + hanging
            }).sum();
            let head = Row { cells: BTreeMap::new(), ..a.clone() }.encode().len();
            prop_assert!(piece.encode().len() <= limit.max(head) || things <= 1 || a.cells.len() == 1
                || piece.cells.len() == 1);
        }
        let merged = pieces.iter().fold(Row::default(), |all, row| joined(&all, row));
        prop_assert_eq!(merged, a);
    }

    #[test]
    fn bodies_hold_what_was_packed(
        table in "[a-zA-Z./📚]{1,8}",
        deltas in btree_map("[a-z]{1,4}", row(), 1..5),
    ) {
        let table = TableName::new(table).unwrap();
        let deltas: BTreeMap<_, _> =
            deltas.into_iter().map(|(id, row)| (RowId::new(id).unwrap(), row)).collect();
        let mut opened = BTreeMap::new();
        for body in pack(&table, &deltas) {
            let read = Body::decode(&body.bytes).unwrap();
            prop_assert_eq!(read.encode(), body.bytes);
            prop_assert_eq!(&read.table, &table);
            prop_assert_eq!(read.deltas.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), body.rows);
            opened.extend(read.deltas);
        }
        let written: BTreeMap<_, _> =
            deltas.into_iter().filter(|(_, delta)| !delta.is_empty()).collect();
        prop_assert_eq!(opened, written);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..400)) {
        let _ = decode_value(&bytes);
        let _ = Row::decode(&bytes);
        let _ = Body::decode(&bytes);
        let _ = json::parse(&bytes);
    }

    #[test]
    fn damaged_bytes_never_panic_and_what_opens_is_canonical(
        row in row(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = row.encode();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(row) = Row::decode(&bytes) {
            prop_assert_eq!(row.encode(), bytes.clone());
            let mut merged = row.clone();
            prop_assert!(!merged.join(&row));
            let _ = merged.columns();
        }
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(Row::decode(&bytes).is_err());
    }

    #[test]
    fn values_survive_cbor_and_json(value in value()) {
        prop_assert_eq!(decode_value(&encode_value(&value)), Ok(value.clone()));
        prop_assert_eq!(json::parse(value.to_string().as_bytes()), Ok(value));
    }

    #[test]
    fn json_is_read_as_serde_json_reads_it(value in value()) {
        // Where serde_json is exact, both agree.
        let text = value.to_string();
        let theirs: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(json::parse(theirs.to_string().as_bytes()), Ok(value));
    }

    #[test]
    fn the_order_of_values_is_total(a in value(), b in value(), c in value()) {
        prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        prop_assert_eq!(compare(&a, &a), Ordering::Equal);
        if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
            prop_assert!(compare(&a, &c).is_le());
        }
    }

    #[test]
    fn keys_sort_as_values(a in value(), b in value()) {
        prop_assert_eq!(value_key(&a).cmp(&value_key(&b)), compare(&a, &b));
        let (long, short) = (value_key(&a), value_key(&b));
        prop_assert!(long == short || !long.starts_with(&short), "a key begins another");
        if a.as_array().is_none() && b.as_array().is_none() {
            let down = |value| sort_key(Some(value), Direction::Descending);
            prop_assert_eq!(down(&a).cmp(&down(&b)), compare(&b, &a));
        }
    }

    #[test]
    fn numbers_compare_as_real_numbers(a in number(), b in number()) {
        prop_assert_eq!(a.order(&b), real_order(a, b));
    }

    #[test]
    fn appending_is_merging_but_for_what_was_replaced(a in row(), b in row()) {
        let mut appended = a.clone();
        appended.append(&b);
        let merged = joined(&a, &b);
        prop_assert_eq!(appended.columns(), merged.columns());
        prop_assert_eq!(forgetful(&appended), forgetful(&merged));
        prop_assert_eq!(Row::decode(&appended.encode()), Ok(appended));
    }
}

/// The row without what its bases replaced.
fn forgetful(row: &Row) -> Row {
    let mut row = row.clone();
    if let Some(cleared) = &mut row.cleared {
        cleared.replaced = Stamp::ZERO;
    }
    for cell in row.cells.values_mut() {
        if let Some(base) = &mut cell.base {
            base.replaced = Stamp::ZERO;
        }
    }
    row
}

/// Compares by another way than the code: floats and integers as integers where they are whole,
/// by their floor where they are not.
fn real_order(a: Number, b: Number) -> Ordering {
    use crate::number::NumberKind::{Above, Float, Int};
    let whole = |number: Number| match number.kind() {
        Int(value) => Some(i128::from(value)),
        Above(value) => Some(i128::from(value)),
        Float(_) => None,
    };
    let against = |integer: i128, float: f64| {
        if float >= 2_f64.powi(100) {
            Ordering::Less
        } else if float <= -(2_f64.powi(100)) {
            Ordering::Greater
        } else {
            let floor = float.floor();
            let fraction = if float > floor { Ordering::Less } else { Ordering::Equal };
            integer.cmp(&(floor as i128)).then(fraction)
        }
    };
    match (whole(a), whole(b), a.kind(), b.kind()) {
        (Some(a), Some(b), _, _) => a.cmp(&b),
        (Some(a), None, _, Float(b)) => against(a, b),
        (None, Some(b), Float(a), _) => against(b, a).reverse(),
        (_, _, Float(a), Float(b)) => a.partial_cmp(&b).unwrap(),
        _ => unreachable!("a number is whole or a float"),
    }
}

#[test]
fn the_largest_rows_are_packed() {
    let columns: Object =
        (0..37_000).map(|n| (format!("{n}"), Value::from(n as u64 % 10))).collect();
    assert!(crate::cbor::encode_object(&columns).len() <= limits::ROW);
    let stamp = Stamp::new(5, 0, Incarnation([1; 8]));
    let written = crate::ops::put(&Row::default(), columns, stamp).unwrap();
    let table = TableName::new("t").unwrap();
    let id = RowId::new("r").unwrap();
    let deltas = BTreeMap::from([(id, written.delta)]);
    let bodies = pack(&table, &deltas);
    assert!(bodies.len() > 1, "it does not fit into one");
    let mut merged = Row::default();
    for body in bodies {
        assert!(body.bytes.len() <= limits::BLOB_BODY);
        for (_, delta) in Body::decode(&body.bytes).unwrap().deltas {
            merged.join(&delta);
        }
    }
    assert_eq!(merged, written.row);
}
