//! Vectors of bodies and of rows that merge.

use minicbor::Encoder;
use serde_json::{Value, json};
use tidings_daemon::vault::unpack_body;
use tidings_tables::cbor::encode_value;
use tidings_tables::{Body, Object, Row, RowId, ops};
use tidings_wire::{Incarnation, Stamp};

use super::{bytes, hex, list, text, unhex};

const TABLE: &str = "films";

fn stamp(millis: u64, counter: u16, by: u8) -> Stamp {
    Stamp::new(1_800_000_000_000 + millis, counter, Incarnation([by; 8]))
}

fn object(json: &str) -> Object {
    let value = tidings_tables::json::parse(json.as_bytes()).unwrap();
    value.as_object().unwrap().clone()
}

fn id(text: &str) -> RowId {
    text.parse().unwrap()
}

fn put(row: &Row, columns: &str, stamp: Stamp) -> Row {
    ops::put(row, object(columns), stamp).unwrap().delta
}

/// An update of cells, at any depth: the operations of this release write whole columns only.
fn update(replaced: Stamp, stamp: Stamp, cells: &[(&[&str], Option<&str>)]) -> Row {
    let mut bytes = Vec::new();
    let encoder = &mut Encoder::new(&mut bytes);
    encoder.array(5).unwrap().array(2).unwrap();
    encoder.bytes(replaced.as_bytes()).unwrap().bytes(stamp.as_bytes()).unwrap();
    encoder.u64(2).unwrap().null().unwrap().null().unwrap().array(cells.len() as u64).unwrap();
    for (path, value) in cells {
        encoder.array(4).unwrap();
        match path {
            [column] => {
                encoder.str(column).unwrap();
            }
            keys => {
                encoder.array(keys.len() as u64).unwrap();
                for key in *keys {
                    encoder.str(key).unwrap();
                }
            }
        }
        encoder.u64(2).unwrap().u64(1).unwrap();
        match value {
            None => {
                encoder.undefined().unwrap();
            }
            Some(json) => {
                let value = tidings_tables::json::parse(json.as_bytes()).unwrap();
                encoder.writer_mut().extend(encode_value(&value));
            }
        }
    }
    Row::decode(&bytes).unwrap()
}

fn delete(row: &Row, stamp: Stamp) -> Row {
    ops::delete(row, stamp).unwrap().delta
}

fn merged<'a>(deltas: impl IntoIterator<Item = &'a Row>) -> Row {
    let mut row = Row::default();
    for delta in deltas {
        row.merge(delta);
    }
    row
}

/// What an app sees, as JSON text; null where the row is not shown.
fn shown(row: &Row) -> Value {
    row.columns()
        .map_or(Value::Null, |columns| tidings_tables::Value::Object(columns).to_string().into())
}

fn body(deltas: Vec<(&str, Row)>) -> Vec<u8> {
    let deltas = deltas.into_iter().map(|(name, row)| (id(name), row)).collect();
    Body { table: TABLE.parse().unwrap(), deltas }.encode()
}

/// Every kind of value, each kind of delta.
fn plain() -> Vec<u8> {
    let columns = r#"{"":"empty key","a.b":[1,1.0,-0.0,"é",{"z":1,"y":{}}],"big":18446744073709551615,
        "flag":true,"least":-9223372036854775808,"none":null,"tiny":5e-324}"#;
    let whole = put(&Row::default(), columns, stamp(1, 0, 1));
    let held = merged([&whole]);
    let part = update(
        stamp(1, 0, 1),
        stamp(2, 7, 1),
        &[(&["big"], Some("1")), (&["deep", "er", "x"], Some("[]")), (&["flag"], None)],
    );
    let gone = delete(&held, stamp(3, 0xffff, 2));
    body(vec![("A", part), ("a", whole), ("é", gone)])
}

/// A row with increments and dots, written byte by byte: no operation of this release makes them.
fn hanging(counts: [(u64, i64); 2], float: f64, added: &[u64], removed: &[u64]) -> Row {
    let stamps = [stamp(1, 0, 1), stamp(2, 0, 1), stamp(3, 0, 2)];
    let mut bytes = Vec::new();
    let encoder = &mut Encoder::new(&mut bytes);
    encoder.array(5).unwrap().array(3).unwrap();
    for stamp in stamps {
        encoder.bytes(stamp.as_bytes()).unwrap();
    }
    encoder.u64(3).unwrap().array(2).unwrap().u64(1).unwrap().bool(true).unwrap();
    encoder.array(2).unwrap().u64(1).unwrap().u64(0).unwrap().array(3).unwrap();
    // A number with increments of two replicas.
    encoder.array(5).unwrap().str("count").unwrap().u64(1).unwrap().u64(0).unwrap();
    encoder.u64(40).unwrap().array(3).unwrap().u64(1).unwrap().map(2).unwrap();
    for (by, (count, sum)) in [1, 2].into_iter().zip(counts) {
        encoder.bytes(&[by; 8]).unwrap().array(2).unwrap().u64(count).unwrap().i64(sum).unwrap();
    }
    encoder.array(0).unwrap();
    // Increments alone, one a float, on the clearing of the row.
    encoder.array(2).unwrap().str("ratio").unwrap().array(3).unwrap().u64(1).unwrap();
    encoder.map(2).unwrap().bytes(&[1; 8]).unwrap().array(2).unwrap().u64(1).unwrap();
    encoder.bytes(&(1i128 << 64).to_be_bytes()).unwrap();
    encoder.bytes(&[2; 8]).unwrap().array(2).unwrap().u64(2).unwrap().f64(float).unwrap();
    encoder.array(0).unwrap();
    // A set on an array of two items.
    encoder.array(5).unwrap().str("tags").unwrap().u64(1).unwrap().u64(0).unwrap();
    encoder.array(2).unwrap().str("old").unwrap().u64(1).unwrap();
    encoder.array(3).unwrap().u64(1).unwrap().map(0).unwrap().array(1).unwrap();
    encoder.array(3).unwrap().f64(1.0).unwrap();
    for places in [added, removed] {
        encoder.array(places.len() as u64).unwrap();
        for place in places {
            encoder.u64(*place).unwrap();
        }
    }
    Row::decode(&bytes).unwrap()
}

/// Deltas of one row that meet in any order.
fn meetings() -> Vec<(&'static str, Vec<Row>)> {
    let first = put(&Row::default(), r#"{"a":1,"b":{"x":1,"y":2}}"#, stamp(10, 0, 1));
    let held = merged([&first]);
    let before = stamp(10, 0, 1);
    let mine = update(before, stamp(20, 0, 1), &[(&["a"], Some("2")), (&["b", "x"], Some("5"))]);
    let theirs =
        update(before, stamp(20, 0, 2), &[(&["a"], Some("3")), (&["b"], Some(r#"{"z":1}"#))]);
    let late = update(before, stamp(30, 0, 1), &[(&["b", "y", "deep"], Some("true"))]);
    let gone = delete(&held, stamp(25, 0, 2));
    let anew = put(&held, r#"{"c":"new"}"#, stamp(26, 0, 2));
    let other = put(&Row::default(), r#"{"a":"other"}"#, stamp(10, 0, 1));
    vec![
        ("columns of two devices", vec![first.clone(), mine.clone(), theirs]),
        ("a write below a value, above one, after one", vec![first.clone(), mine, late.clone()]),
        (
            "an update that is later than the delete",
            vec![first.clone(), gone.clone(), late.clone()],
        ),
        (
            "a put after the delete drops what was before",
            vec![first.clone(), gone, anew, late.clone()],
        ),
        ("an update of a row that did not arrive", vec![late]),
        ("one stamp with two values", vec![first, other]),
        (
            "increments and dots",
            vec![
                hanging([(2, 5), (1, -7)], 0.5, &[2, 3], &[1]),
                hanging([(1, 3), (4, 9)], 0.25, &[2], &[1, 3]),
            ],
        ),
    ]
}

/// What is not a body, though a decoder might take it.
fn not_bodies() -> Vec<(&'static str, Vec<u8>)> {
    let good = body(vec![("a", put(&Row::default(), r#"{"n":1}"#, stamp(1, 0, 1)))]);
    let changed = |from: &str, to: &str| {
        let text = hex(&good);
        assert!(text.contains(from), "{from} in {text}");
        unhex(&text.replacen(from, to, 1))
    };
    let whole = hex(&good);
    let listed = format!("8150{}", hex(stamp(1, 0, 1).as_bytes()));
    let second = format!("{}50{}", listed.replacen("81", "82", 1), hex(stamp(2, 0, 1).as_bytes()));
    let far = format!("8150{}", hex(Stamp::new(1 << 47, 0, Incarnation([1; 8])).as_bytes()));
    vec![
        ("bytes after the end", unhex(&format!("{whole}00"))),
        ("cut off", good[..good.len() - 1].to_vec()),
        ("a later format", changed("8301", "8302")),
        ("no rows", unhex("83016566696c6d7380")),
        ("a table without a name", changed("6566696c6d73", "60")),
        ("a row id with a NUL", changed("826161", "826100")),
        ("a head that could be shorter", changed("8301", "831801")),
        ("an array without a length", unhex(&format!("9f{}ff", &whole[2..]))),
        ("a float of 32 bits", changed("616e010001", "616e0100fa3f800000")),
        ("a stamp at 2^47 ms", changed(&listed, &far)),
        ("a stamp that nothing names", changed(&listed, &second)),
        ("a place without a stamp", changed("8201f5", "8202f5")),
        ("a write that replaces a later one", changed("616e010001", "616e010101")),
        ("not UTF-8", changed("616e010001", "61ff010001")),
    ]
}

pub fn make() -> Value {
    let packed: Vec<Value> = packed()
        .iter()
        .map(|(packed, body)| json!({ "packed": hex(packed), "body": hex(body) }))
        .collect();
    let merges: Vec<Value> = meetings()
        .into_iter()
        .map(|(what, deltas)| {
            let row = merged(&deltas);
            let version = row.version().to_string();
            let deltas: Vec<String> = deltas.iter().map(|delta| hex(delta.encode())).collect();
            json!({ "what": what, "deltas": deltas, "row": hex(row.encode()), "version": version, "shown": shown(&row) })
        })
        .collect();
    let refused: Vec<Value> =
        not_bodies().iter().map(|(why, body)| json!({ "why": why, "body": hex(body) })).collect();
    let plain = plain();
    let rows: Vec<Value> = Body::decode(&plain)
        .unwrap()
        .deltas
        .iter()
        .map(|(id, row)| json!({ "id": id.as_str(), "version": row.version().to_string(), "shown": shown(row) }))
        .collect();
    json!({
        "body": hex(&plain),
        "table": TABLE,
        "rows": rows,
        "packed": packed,
        "merges": merges,
        "refused": refused,
    })
}

/// A body as it is, and one as a Zstandard frame. The frame is given: what a compressor makes
/// may change with its version, what it unpacks to may not.
fn packed() -> [(Vec<u8>, Vec<u8>); 2] {
    let row = put(
        &Row::default(),
        &format!(r#"{{"text":"{}"}}"#, "tidings ".repeat(200)),
        stamp(1, 0, 1),
    );
    let (short, long) = (plain(), body(vec![("a", row)]));
    [([&[0], short.as_slice()].concat(), short), (unhex(FRAME), long)]
}

const FRAME: &str = "0128b52ffd607205ed0100240383016566696c6d738182616185815001a3185c50010000018201f5820100818464746578\
    740100790640746964696e6773200200d6b8f2072fc003";

pub fn read(vector: &Value) {
    let body = Body::decode(&bytes(vector, "body")).unwrap();
    assert_eq!(body.table.as_str(), text(vector, "table"));
    for ((id, row), known) in body.deltas.iter().zip(list(vector, "rows")) {
        assert_eq!(id.as_str(), text(known, "id"));
        assert_eq!(row.version().to_string(), text(known, "version"));
        assert_eq!(shown(row), known["shown"]);
    }
    for known in list(vector, "packed") {
        assert_eq!(unpack_body(&bytes(known, "packed")).unwrap(), bytes(known, "body"));
    }
    for known in list(vector, "merges") {
        let deltas: Vec<Row> = list(known, "deltas")
            .iter()
            .map(|delta| Row::decode(&unhex(delta.as_str().unwrap())).unwrap())
            .collect();
        for row in [merged(&deltas), merged(deltas.iter().rev())] {
            assert_eq!(hex(row.encode()), text(known, "row"), "{}", text(known, "what"));
            assert_eq!(shown(&row), known["shown"]);
        }
    }
    for known in list(vector, "refused") {
        assert!(Body::decode(&bytes(known, "body")).is_err(), "{}", text(known, "why"));
    }
}
