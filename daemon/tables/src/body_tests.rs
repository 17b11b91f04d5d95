//! Bodies: known bytes, what is refused, how deltas are packed.

use tidings_wire::{Incarnation, Stamp};

use super::*;
use crate::cell::{Base, Cell, Dot, Hanging};
use crate::object::Object;
use crate::ops;
use crate::path::Path;
use crate::value::Value;

fn at(millis: u64) -> Stamp {
    Stamp::new(millis, 0, Incarnation([1; 8]))
}

fn table() -> TableName {
    TableName::new("t").unwrap()
}

fn id(text: &str) -> RowId {
    RowId::new(text).unwrap()
}

fn put(len: usize) -> Delta {
    let columns = Object::from([("a", Value::from("x".repeat(len)))]);
    ops::put(&Row::default(), columns, at(1)).unwrap().delta
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_body_has_known_bytes() {
    let body = Body { table: table(), deltas: vec![(id("r"), put(1))] };
    let stamp = "50 0000000000010000 0101010101010101";
    let expected = format!(
        "83 01 61 74 81 82 61 72 85 81 {stamp} 01 82 01 f5 82 01 00 81 84 61 61 01 00 61 78"
    );
    assert_eq!(hex(&body.encode()), expected.replace(' ', ""));
    assert_eq!(Body::decode(&body.encode()), Ok(body));
}

#[test]
fn what_is_not_a_body_is_refused() {
    let good = Body { table: table(), deltas: vec![(id("a"), put(1)), (id("b"), put(1))] };
    let bytes = good.encode();
    let damaged = |bytes: &[u8]| matches!(Body::decode(bytes), Err(BodyError::Damaged(_)));
    for len in 0..bytes.len() {
        assert!(damaged(&bytes[..len]), "cut at {len}");
    }
    assert!(damaged(&[&bytes[..], &[0]].concat()), "bytes after the end");

    let mut later = bytes.clone();
    later[1] = 2;
    assert_eq!(Body::decode(&later), Err(BodyError::Format(2)));
    assert_eq!(
        Body::decode(&later).unwrap_err().to_string(),
        "a body of format 2: needs a newer Tidings"
    );

    for (what, body) in [
        ("twice", vec![(id("a"), put(1)), (id("a"), put(1))]),
        ("unsorted", vec![(id("b"), put(1)), (id("a"), put(1))]),
        ("empty delta", vec![(id("a"), Row::default())]),
        ("nothing", vec![]),
    ] {
        assert!(damaged(&Body { table: table(), deltas: body }.encode()), "{what}");
    }
    let far = ops::put(&Row::default(), Object::new(), at(Stamp::MILLIS_LIMIT)).unwrap().delta;
    assert!(damaged(&Body { table: table(), deltas: vec![(id("a"), far)] }.encode()), "far");
}

#[test]
fn a_cell_that_does_not_count_is_refused() {
    let mut row = put(1);
    let early = Stamp::new(0, 5, Incarnation([1; 8]));
    let base = Base { stamp: early, value: None, replaced: Stamp::ZERO };
    let stale = Cell { base: Some(base), hanging: None };
    row.cells.insert(Path::column("z"), stale);
    assert_eq!(Row::decode(&row.encode()).unwrap_err().what, "a cell that does not count");
}

#[test]
fn sizes_are_bounded_before_anything_is_read() {
    let bytes = vec![0x81; limits::BLOB_BODY_SINGLE + 1];
    assert_eq!(Body::decode(&bytes), Err(BodyError::TooLarge(bytes.len())));
    let half = limits::BLOB_BODY / 2;
    let two = Body { table: table(), deltas: vec![(id("a"), put(half)), (id("b"), put(half))] };
    assert!(matches!(Body::decode(&two.encode()), Err(BodyError::TooLarge(_))));
}

#[test]
fn deltas_fill_bodies_in_order() {
    let deltas: BTreeMap<_, _> = (0..1000).map(|n| (id(&format!("r{n:04}")), put(1000))).collect();
    let bodies = pack(&table(), &deltas);
    assert!((4..=5).contains(&bodies.len()), "{} bodies", bodies.len());
    let rows: Vec<_> = bodies.iter().flat_map(|body| body.rows.clone()).collect();
    assert_eq!(rows, deltas.keys().cloned().collect::<Vec<_>>());
    for body in &bodies {
        assert!(body.bytes.len() <= limits::BLOB_BODY);
        assert_eq!(Body::decode(&body.bytes).unwrap().deltas.len(), body.rows.len());
    }
    assert_eq!(pack(&table(), &BTreeMap::from([(id("a"), Row::default())])), []);
}

#[test]
fn a_large_delta_goes_alone() {
    let deltas =
        BTreeMap::from([(id("a"), put(10)), (id("b"), put(limits::ROW - 8)), (id("c"), put(10))]);
    let bodies = pack(&table(), &deltas);
    let rows: Vec<_> = bodies.iter().map(|body| body.rows.len()).collect();
    assert_eq!(rows, [1, 1, 1]);
    let large = bodies[1].bytes.len();
    assert!((limits::BLOB_BODY..=limits::BLOB_BODY_SINGLE).contains(&large));
    assert!(Body::decode(&bodies[1].bytes).is_ok());
}

#[test]
fn a_set_larger_than_a_body_is_cut_by_its_dots() {
    let mut hanging = Hanging::on(at(9));
    for n in 0..12_000_u64 {
        hanging.put_dot(Dot {
            value: Value::from(format!("a value of a set, number {n}")),
            added: [at(10 + n)].into(),
            removed: Default::default(),
        });
    }
    // One value that was added and removed very often.
    hanging.put_dot(Dot {
        value: Value::from(1_u64),
        added: Default::default(),
        removed: (0..30_000).map(|n| at(100_000 + n)).collect(),
    });
    let value = Some(Value::from("x".repeat(200_000)));
    let base = Base { stamp: at(9), value, replaced: at(1) };
    let cell = Cell { base: Some(base), hanging: Some(Box::new(hanging)) };
    let mut row = put(10);
    row.join(&Row { cells: [(Path::column("s"), cell)].into(), ..Row::default() });
    let bodies = pack(&table(), &BTreeMap::from([(id("r"), row.clone())]));
    assert!(bodies.len() > 2);
    let mut merged = Row::default();
    for body in bodies {
        assert!(body.bytes.len() <= limits::BLOB_BODY, "{}", body.bytes.len());
        let opened = Body::decode(&body.bytes).unwrap();
        opened.deltas.iter().for_each(|(_, delta)| {
            merged.join(delta);
        });
    }
    assert_eq!(merged, row);
}
