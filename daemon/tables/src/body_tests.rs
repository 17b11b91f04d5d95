//! Bodies: known bytes, what is refused, how deltas are packed.

use tidings_wire::{Incarnation, Stamp};

use super::*;
use crate::cell::{Base, Cell, Dot, Hanging, Increment, Sum};
use crate::object::Object;
use crate::ops;
use crate::path::Path;
use crate::row::Life;
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
fn every_part_of_a_row_has_known_bytes() {
    let mut hanging = Hanging::on(at(3));
    hanging.increments.insert(Incarnation([2; 8]), Increment { count: 4, sum: Sum::Int(-1) });
    let large = Increment { count: 1, sum: Sum::Int(1 << 64) };
    hanging.increments.insert(Incarnation([3; 8]), large);
    let float = Increment { count: 1, sum: Sum::Float(0.5) };
    hanging.increments.insert(Incarnation([4; 8]), float);
    hanging.put_dot(Dot { value: Value::Null, added: [at(5)].into(), removed: [at(3)].into() });
    let base = Base { stamp: at(3), value: None, replaced: at(2) };
    let mut row = put(1);
    row.version = at(4);
    row.life = Some(Life { stamp: at(4), alive: false });
    row.cells = BTreeMap::from([
        (Path::parse("a.b"), Cell { base: Some(base), hanging: None }),
        (Path::column("c"), Cell { base: None, hanging: Some(Box::new(hanging)) }),
    ]);
    let stamp = |millis: u8| format!("50 00000000{millis:04x}0000 0101010101010101 ");
    let expected = [
        "85",
        // the stamps, by whose places all others are named from here on
        "85",
        &stamp(1),
        &stamp(2),
        &stamp(3),
        &stamp(4),
        &stamp(5),
        // version, life, cleared
        "04",
        "82 04 f4",
        "82 01 00",
        "82",
        // a.b removed at 3, where 2 was seen
        "84 82 61 61 61 62 03 02 f7",
        // c: on 3, three replicas' sums, one dot
        "82 61 63 83 03",
        "a3 48 0202020202020202 82 04 20",
        "48 0303030303030303 82 01 50 00000000000000010000000000000000",
        "48 0404040404040404 82 01 fb 3fe0000000000000",
        "81 83 f6 81 05 81 03",
    ];
    assert_eq!(hex(&row.encode()), expected.concat().replace(' ', ""));
    assert_eq!(Row::decode(&row.encode()), Ok(row));
}

#[test]
fn a_row_nests_no_deeper_than_a_record_may() {
    let nested = |levels| (0..levels).fold(Value::Null, |value, _| Value::Array(vec![value]));
    let read = |keys, levels| {
        let path = Path::new(std::iter::repeat_n("k".into(), keys)).unwrap();
        let base = Base { stamp: at(1), value: Some(nested(levels)), replaced: Stamp::ZERO };
        let cells = BTreeMap::from([(path, Cell { base: Some(base), hanging: None })]);
        Row::decode(&Row { cells, ..Row::default() }.encode())
            .map(|_| ())
            .map_err(|error| error.what)
    };
    for keys in [1, 30, 64] {
        assert_eq!(read(keys, 64 - keys), Ok(()));
        assert_eq!(read(keys, 65 - keys), Err("nested too deep"));
    }
    assert_eq!(read(65, 0), Err("nested too deep"));
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
