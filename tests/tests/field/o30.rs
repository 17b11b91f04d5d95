//! O30: stores refuse or mangle legal JSON keys with dots or a leading `$`, lose a field whose
//! name equals an internal one, or let `__proto__` leak into behaviour.

use http::Method;
use serde_json::{Value, json};
use tidings_client::local::LocalError;
use tidings_tests::{Device, House};
use tidings_wire::AppId;
use tidings_wire::local::{ChangeKind, QueryRequest};

const ROW: &str = r#"{"id":"k1",".0.0.0.2":2,"$type":"entry","a.b":{"c":1},"a":{"b":{"c":2}},"__proto__":{"x":1},"constructor":1,"ttl":"1234","op":"insert","table":"t","":3}"#;

async fn found(device: &Device, app: &AppId, filter: Value) -> Result<Vec<String>, LocalError> {
    let query = QueryRequest { filter: Some(filter), ..QueryRequest::default() };
    let page = device.client().query(app, "t", &query).await?;
    Ok(page.records.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn o30_every_legal_key_comes_back() {
    let app: AppId = "keys".parse().unwrap();
    let house = House::new(&["a", "b"]).await;
    let (a, b) = (house.device(0), house.device(1));
    let row: Value = serde_json::from_str(ROW).unwrap();
    assert_eq!(row.as_object().unwrap().len(), 11);
    let mut here = a.follow(&app, "t").await;
    let mut there = b.follow(&app, "t").await;

    let rows = format!("/v1/apps/{app}/tables/t/rows");
    a.send_raw(Method::POST, &rows, ROW).await.unwrap();
    for stream in [&mut here, &mut there] {
        let change = stream.change().await;
        let mut record = change.record.unwrap();
        record.remove("_ver");
        assert_eq!(Value::Object(record), row);
        assert_eq!((change.kind, change.table.as_str()), (ChangeKind::Insert, "t"));
    }
    a.row_becomes(&app, "t", "k1", &row).await;
    b.row_becomes(&app, "t", "k1", &row).await;
    for device in [a, b] {
        let listed = device.rows(&app, "t").await;
        let listed: Vec<_> = listed.into_iter().map(Value::Object).collect();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0], row);
        // A dotted path goes down; a key that holds a dot or begins with `$` is a JSON Pointer.
        assert_eq!(found(device, &app, json!({ "a.b.c": 2 })).await.unwrap(), ["k1"]);
        assert_eq!(found(device, &app, json!({ "/a.b/c": 1 })).await.unwrap(), ["k1"]);
        assert_eq!(found(device, &app, json!({ "/$type": "entry" })).await.unwrap(), ["k1"]);
        assert_eq!(found(device, &app, json!({ "/.0.0.0.2": 2 })).await.unwrap(), ["k1"]);
        assert_eq!(
            found(device, &app, json!({ "op": "insert", "ttl": "1234" })).await.unwrap(),
            ["k1"]
        );
        assert!(found(device, &app, json!({ "a.b.c": 1 })).await.unwrap().is_empty());
        let refused = found(device, &app, json!({ "$type": "entry" })).await;
        let Err(LocalError::Problem { status: 400, problem }) = refused else {
            panic!("an operator that is none: {refused:?}");
        };
        assert!(problem.message.contains("/$type"), "it names the escape: {problem}");
    }

    // `op`, `table` and `ttl` are data: the row is still there, and can be changed and deleted.
    let patch = json!({ "$set": { "op": "delete", "table": "u" } });
    a.client().patch(&app, "t", "k1", &patch, None).await.unwrap();
    let mut changed = row;
    changed["op"] = json!("delete");
    changed["table"] = json!("u");
    b.row_becomes(&app, "t", "k1", &changed).await;
    assert_eq!(here.change().await.kind, ChangeKind::Update);
    a.client().delete(&app, "t", "k1", None).await.unwrap();
    b.rows_become(&app, "t", 0).await;
}
