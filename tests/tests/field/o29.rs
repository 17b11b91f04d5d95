//! O29: a table name with a slash is accepted on write and cannot be found afterwards; a name
//! with `../` writes files outside the data folder.

use http::Method;
use serde_json::json;
use tidings_client::local::LocalError;
use tidings_tests::House;
use tidings_wire::AppId;
use tidings_wire::local::{BatchOp, BatchRequest, BatchVerb};

/// Names that are as good as any other.
const NAMES: [&str; 7] = ["org/model", "../../tmp/evil", ".", "\u{1f4da}", "CON", "Tasks", "tasks"];

#[tokio::test(flavor = "multi_thread")]
async fn o29_a_table_is_found_under_exactly_its_name() {
    let app: AppId = "names".parse().unwrap();
    let house = House::new(&["a", "b"]).await;
    let (a, b) = (house.device(0), house.device(1));
    let marker = tempfile::NamedTempFile::new().unwrap();
    for (index, name) in NAMES.into_iter().enumerate() {
        let mut there = b.follow(&app, name).await;
        let mut here = a.follow(&app, name).await;
        a.put(&app, name, "r", &json!({ "n": index })).await;
        for stream in [&mut here, &mut there] {
            let change = stream.change().await;
            assert_eq!(change.table, name);
            assert_eq!(change.record.unwrap()["n"], index);
        }
        a.row_becomes(&app, name, "r", &json!({ "id": "r", "n": index })).await;
        b.row_becomes(&app, name, "r", &json!({ "id": "r", "n": index })).await;
    }
    let mut expected = NAMES.map(str::to_owned).to_vec();
    expected.sort();
    for device in [a, b] {
        let tables = device.client().tables(&app).await.unwrap().tables;
        let mut names: Vec<_> = tables.into_iter().map(|table| table.name).collect();
        names.sort();
        assert_eq!(names, expected, "{}", device.name());
    }

    // Empty, with a NUL, too long: refused at the first write, however it comes.
    let long = "x".repeat(256);
    for name in ["", "a\0b", &long] {
        let op = BatchOp {
            op: BatchVerb::Put,
            table: name.to_owned(),
            id: Some("r".to_owned()),
            row: Some(serde_json::Map::new()),
            patch: None,
            if_match: None,
        };
        let batch = BatchRequest { ops: vec![op], atomic: true, mutation_id: None };
        let refused = a.client().batch(&app, &batch).await;
        let is_400 = matches!(refused, Err(LocalError::Problem { status: 400, .. }));
        assert!(is_400, "{name:?} in a batch: {refused:?}");
        let refused = a.client().put(&app, name, "r", &json!({}), None).await;
        let refused_here = match refused {
            Err(LocalError::Problem { status, .. }) => {
                status == 400 || (name.is_empty() && status == 404)
            }
            _ => false,
        };
        assert!(refused_here, "{name:?} in a path: {refused:?}");
    }
    let longest = "x".repeat(255);
    a.put(&app, &longest, "r", &json!({})).await;
    b.rows_become(&app, &longest, 1).await;

    // Raw steps in a path are a route that does not exist, not a table.
    let path = format!("/v1/apps/{app}/tables/../../tmp/evil/rows/r");
    let refused = a.send_raw(Method::PUT, &path, "{}").await;
    assert!(matches!(refused, Err(LocalError::Problem { status: 404 | 400, .. })), "{refused:?}");

    // Nothing of that name came to be anywhere.
    let found = std::process::Command::new("find")
        .args(["/", "-xdev", "(", "-path", "*/tmp/evil", "-o", "-path", "*/tmp/evil/*", ")"])
        .arg("-newer")
        .arg(marker.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}
