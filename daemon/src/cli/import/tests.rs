//! What becomes of files, format by format.

use std::path::Path;

use serde_json::{Value, json};

use super::{BadRow, Shape, Tables, default_table, parse};

fn read(name: &str, text: &str, shape: &Shape) -> Result<Tables, BadRow> {
    let path = Path::new(name);
    let shape = Shape { default_table: default_table(path), ..shape.clone() };
    parse(path, text, None, None, &shape)
}

fn rows(tables: &Tables) -> Vec<(String, Value)> {
    let rows = tables.as_slice().iter().flat_map(|table| {
        table
            .rows
            .iter()
            .map(|row| (table.name.to_string(), serde_json::from_str(&row.json).unwrap()))
    });
    rows.collect()
}

fn refused(name: &str, text: &str, shape: &Shape) -> String {
    read(name, text, shape).unwrap_err().to_string()
}

#[test]
fn an_array_of_rows() {
    let tables = read(
        "notes.json",
        r#"[{"id":"a","n":1.0},{"id":2,"n":18446744073709551615}]"#,
        &Shape::default(),
    )
    .unwrap();
    assert_eq!(
        rows(&tables),
        [
            ("notes".into(), json!({"id": "a", "n": 1.0})),
            ("notes".into(), json!({"id": "2", "n": 18446744073709551615_u64})),
        ]
    );
    assert!(tables.as_slice()[0].rows[0].json.contains("1.0"), "a float stays one");
}

#[test]
fn a_lone_array_in_an_object() {
    let text = r#"{"version": 3, "3166-2": [{"code":"AD-02"},{"code":"AD-03"}]}"#;
    let shape = Shape { id: Some("code".into()), ..Shape::default() };
    let tables = read("iso_3166-2.json", text, &shape).unwrap();
    assert_eq!(rows(&tables)[1], ("iso_3166-2".into(), json!({"id": "AD-03", "code": "AD-03"})));

    let several = r#"{"a": [], "b": {"c": [{"id":"x"}]}, "d": []}"#;
    assert_eq!(
        refused("f.json", several, &Shape::default()),
        r#"the whole file: several arrays ("a", "d"): add --root KEY"#
    );
    let shape = Shape { default_table: "t".into(), ..Shape::default() };
    let tables = parse(Path::new("f.json"), several, None, Some("/b/c"), &shape).unwrap();
    assert_eq!(tables.rows(), 1);
    assert!(parse(Path::new("f.json"), several, None, Some("nope"), &shape).is_err());
}

#[test]
fn fixtures_are_split_by_model() {
    let text = r#"[{"pk": 1, "model": "chinook.album", "fields": {"title": "T", "artist": 1}},
                   {"pk": 1, "model": "chinook.artist", "fields": {"name": "N"}},
                   {"pk": "x", "model": "chinook.album", "fields": {}}]"#;
    let tables = read("initial_data.json", text, &Shape::default()).unwrap();
    assert_eq!(
        rows(&tables),
        [
            ("album".into(), json!({"id": "1", "title": "T", "artist": 1})),
            ("album".into(), json!({"id": "x"})),
            ("artist".into(), json!({"id": "1", "name": "N"})),
        ]
    );
}

#[test]
fn a_row_per_line() {
    let text = "{\"id\":\"a\"}\n\n{\"id\":\"b\"}\r\n";
    for name in ["x.ndjson", "x.jsonl", "x.json", "-"] {
        assert_eq!(read(name, text, &Shape::default()).unwrap().rows(), 2, "{name}");
    }
    assert_eq!(
        refused("x.ndjson", "{\"id\":\"a\"}\n{\"id\":\n", &Shape::default()),
        "row 2 (line 2): not JSON: the text ends in the middle of a value at byte 6"
    );
}

#[test]
fn cells_of_csv_stay_what_they_are() {
    let text = "zip,n,price,phone,flag,note,v\n\
                00501,1,0.99,+49,true,\"a, \"\"b\"\"\",1e5\n\
                12345,-2,1.50,110,false,,2\n";
    let tables = read("t.csv", text, &Shape::default()).unwrap();
    let mut rows = rows(&tables);
    rows.iter_mut().for_each(|(_, row)| {
        row.as_object_mut().unwrap().remove("id").unwrap();
    });
    assert_eq!(
        rows[0].1,
        json!({"zip": "00501", "n": 1, "price": 0.99, "phone": "+49", "flag": true,
               "note": "a, \"b\"", "v": "1e5"})
    );
    assert_eq!(
        rows[1].1,
        json!({"zip": "12345", "n": -2, "price": 1.5, "phone": "110", "flag": false, "v": "2"})
    );
}

#[test]
fn numbers_that_would_change_stay_text() {
    for cell in [
        "18446744073709551616",
        "0.1000000000000000055511151231257827",
        "-0",
        "1.",
        ".5",
        "--1",
        "1-2",
        "0x10",
        "١",
    ] {
        let tables = read("t.csv", &format!("v\n{cell}\n"), &Shape::default()).unwrap();
        assert_eq!(rows(&tables)[0].1["v"], json!(cell), "{cell}");
    }
    for (cell, value) in
        [("18446744073709551615", json!(u64::MAX)), ("0.10", json!(0.1)), ("-7", json!(-7))]
    {
        let tables = read("t.csv", &format!("v\n{cell}\n"), &Shape::default()).unwrap();
        assert_eq!(rows(&tables)[0].1["v"], value, "{cell}");
    }
}

#[test]
fn columns_can_be_told_to_stay_text() {
    let shape = Shape { text: vec!["n".into()], ..Shape::default() };
    let tables = read("t.csv", "n\n300\n", &shape).unwrap();
    assert_eq!(rows(&tables)[0].1["n"], json!("300"));
    let tables = read("t.json", r#"[{"n":300},{"n":1.5},{"n":null}]"#, &shape).unwrap();
    let values: Vec<_> = rows(&tables).into_iter().map(|(_, row)| row["n"].clone()).collect();
    assert_eq!(values, [json!("300"), json!("1.5"), json!(null)]);
}

#[test]
fn tables_from_a_column() {
    let shape = Shape { table_from: Some("kind".into()), ..Shape::default() };
    let tables = read("t.csv", "id,kind\n1,a\n1,b\n2,a\n", &shape).unwrap();
    let names: Vec<_> = rows(&tables).into_iter().map(|(table, _)| table).collect();
    assert_eq!(names, ["a", "a", "b"]);
    assert_eq!(
        refused("t.json", r#"[{"id":"1"}]"#, &shape),
        r#"row 1 (line 1): the column "kind" does not name a table"#
    );
}

#[test]
fn ids_without_a_column_come_from_the_content() {
    let text = r#"[{"n":1},{"n":2},{"n":1}]"#;
    let first = read("t.json", text, &Shape::default()).unwrap();
    let again = read("t.json", text, &Shape::default()).unwrap();
    assert_eq!(rows(&first), rows(&again), "the same file gives the same ids");
    let ids: std::collections::BTreeSet<_> =
        first.as_slice()[0].rows.iter().map(|row| row.id.clone()).collect();
    assert_eq!(ids.len(), 3, "equal rows are still different rows");
    let id = ids.first().unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "8"), "a UUID of version 8: {id}");
}

#[test]
fn what_would_lose_data_is_refused_with_its_place() {
    let shape = Shape { id: Some("name".into()), ..Shape::default() };
    assert_eq!(
        refused("t.json", "[{\"name\":\"a\"},\n {\"name\":\"b\"},\n {\"name\":\"a\"}]", &shape),
        "row 3 (line 3): its id \"a\" is also that of row 1 (line 1); one would replace the other"
    );
    assert!(refused("t.json", r#"[{"nom":"a"}]"#, &shape).contains("no column \"name\""));
    assert!(refused("t.json", r#"[{"name":1.5}]"#, &shape).contains("id column \"name\" holds"));
    assert!(
        refused("t.json", r#"[{"id":"x","name":"a"}]"#, &shape).contains("beside the id column")
    );
    let plain = Shape::default();
    assert!(
        refused("t.json", r#"[{"id":null}]"#, &plain).starts_with("row 1 (line 1): its \"id\"")
    );
    assert!(
        refused("t.json", r#"[{"n":18446744073709551616}]"#, &plain).contains("an integer outside")
    );
    assert!(refused("t.json", r#"[{"t":"cut \ud83d"}]"#, &plain).contains("surrogate"));
    assert!(refused("t.json", "[1]", &plain).contains("a row is a JSON object"));
    assert!(refused("t.json", "[{\"a\":1},\n{\"a\"", &plain).starts_with("line 2, column 4: EOF"));
    assert!(refused("t.csv", "a,a\n1,2\n", &plain).contains("twice"));
    assert!(refused("t.csv", "a,\n1,2\n", &plain).contains("no name"));
    assert_eq!(
        refused("t.csv", "a,b\n1,2\n3\n", &plain),
        "row 2 (line 3): it has 1 cells and the header 2"
    );
    let large = format!(r#"[{{"id":"x","t":"{}"}}]"#, "x".repeat(300_000));
    assert!(refused("t.json", &large, &plain).contains("a row holds at most 262144"));
}

#[test]
fn the_movies_are_all_there() {
    let text = include_str!("../../../../tests/data/movies.json");
    let tables = read("movies.json", text, &Shape::default()).unwrap();
    assert_eq!(tables.rows(), 3201);
    let rows = rows(&tables);
    assert_eq!(rows.iter().filter(|(_, row)| row["Title"].is_null()).count(), 1);
    assert_eq!(rows.iter().filter(|(_, row)| row["Title"].is_number()).count(), 9);
    assert_eq!(rows.iter().filter(|(_, row)| row["Director"].is_null()).count(), 1331);
}
