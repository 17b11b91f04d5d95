//! O26: an embedded query engine treats "field is null" and "field is absent" differently from the
//! engine it mirrors.
//!
//! The rule is in docs/apps.md: a missing column is null, and a value against an array means that
//! the array holds it.

use serde_json::{Value, json};
use tidings_client::local::WatchOptions;
use tidings_tests::{DEADLINE, Device, House, within};
use tidings_wire::AppId;
use tidings_wire::local::{Change, ChangeKind, QueryRequest, Transition};

const ROWS: [&str; 6] =
    [r#"{"a":null}"#, r"{}", r#"{"a":0}"#, r#"{"a":""}"#, r#"{"a":false}"#, r#"{"a":[null]}"#];

/// The ids that a filter finds, in their order.
async fn found(device: &Device, app: &AppId, filter: &Value) -> Vec<String> {
    let query = QueryRequest { filter: Some(filter.clone()), ..QueryRequest::default() };
    let page = device.client().query(app, "t", &query).await.unwrap();
    page.records.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn o26_null_and_absent_are_one_for_a_filter() {
    let app: AppId = "notes".parse().unwrap();
    let house = House::new(&["a", "b"]).await;
    let (a, b) = (house.device(0), house.device(1));
    let nothing = json!({ "a": null });
    let options = WatchOptions { filter: Some(nothing.clone()), ..WatchOptions::default() };
    let mut stream = a.client().watch(&app, &["t".to_owned()], &options).await.unwrap();
    for (number, row) in (1..).zip(ROWS) {
        let row: Value = serde_json::from_str(row).unwrap();
        a.put(&app, "t", &number.to_string(), &row).await;
    }
    b.rows_become(&app, "t", 6).await;
    for device in [a, b] {
        for filter in [&nothing, &json!({ "a": { "$eq": null } }), &json!({ "$and": [nothing] })] {
            let ids = found(device, &app, filter).await;
            assert_eq!(ids, ["1", "2", "6"], "{}: {filter}", device.name());
        }
        assert_eq!(found(device, &app, &json!({ "a": 0 })).await, ["3"]);
        assert_eq!(found(device, &app, &json!({ "a": "" })).await, ["4"]);
        assert_eq!(found(device, &app, &json!({ "a": false })).await, ["5"]);
        // By the same rule in an address.
        let path = format!("/v1/apps/{app}/tables/t/rows?filter=%7B%22a%22%3Anull%7D");
        let page = device.send_raw(http::Method::GET, &path, "").await.unwrap();
        let page: Value = page.json().unwrap();
        assert_eq!(page["records"].as_array().unwrap().len(), 3, "{page}");
    }

    // From null to absent: the row stays, in the query and in the stream.
    a.put(&app, "t", "1", &json!({})).await;
    assert_eq!(found(a, &app, &nothing).await, ["1", "2", "6"]);
    // And it leaves with a value.
    a.put(&app, "t", "1", &json!({ "a": 7 })).await;
    assert_eq!(found(a, &app, &nothing).await, ["2", "6"]);
    let mut told = Vec::new();
    while told.len() < 5 {
        let event = within("an event", DEADLINE, stream.next()).await.unwrap().unwrap();
        if event.name == "connected" {
            continue;
        }
        let data: Value = serde_json::from_str(&event.data).unwrap();
        let transition = serde_json::from_str::<Change>(&event.data)
            .ok()
            .filter(|change| change.kind == ChangeKind::Update)
            .and_then(|change| change.transition);
        if event.name == "update" {
            assert_eq!(transition, Some(Transition::Stay), "{event:?}");
        }
        told.push((event.name, data["row_id"].as_str().unwrap_or_default().to_owned()));
    }
    let wished =
        [("insert", "1"), ("insert", "2"), ("insert", "6"), ("update", "1"), ("leave", "1")];
    let told: Vec<_> = told.iter().map(|(name, row)| (name.as_str(), row.as_str())).collect();
    assert_eq!(told, wished);
}
