//! O28: when an update makes a row stop matching the filter, subscribers hear nothing and keep
//! showing it.

use serde_json::{Value, json};
use tidings_client::local::{EventStream, WatchOptions};
use tidings_tests::{DEADLINE, Device, House, within};
use tidings_wire::AppId;

/// A stream of the table: of all of it, or of what a filter finds.
async fn watch(device: &Device, app: &AppId, filter: Option<Value>) -> EventStream {
    let options = WatchOptions { filter, ..WatchOptions::default() };
    device.client().watch(app, &["books".to_owned()], &options).await.unwrap()
}

/// The next events of a stream: their names, and what an update says of the filter.
async fn told(stream: &mut EventStream, count: usize) -> Vec<(String, String)> {
    let mut told = Vec::new();
    while told.len() < count {
        let event = within("an event", DEADLINE, stream.next()).await.unwrap().unwrap();
        if event.name == "connected" {
            continue;
        }
        let data: Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!(data["row_id"], "b1", "{event:?}");
        let why = data.get("transition").or_else(|| data.get("reason"));
        told.push((event.name, why.and_then(Value::as_str).unwrap_or_default().to_owned()));
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn o28_a_row_that_leaves_a_filter_is_told() {
    let app: AppId = "library".parse().unwrap();
    let house = House::new(&["a", "b"]).await;
    let (a, b) = (house.device(0), house.device(1));
    let fantasy = json!({ "genre": "Fantasy" });
    // Here and on another computer; each change is pushed before the next, so that there too each
    // one is a change of its own.
    let mut plain = [watch(a, &app, None).await, watch(b, &app, None).await];
    let mut filtered =
        [watch(a, &app, Some(fantasy.clone())).await, watch(b, &app, Some(fantasy)).await];
    for (title, genre) in
        [("One", "Fantasy"), ("Two", "Fantasy"), ("Two", "Mystery"), ("Two", "Fantasy")]
    {
        let row = json!({ "title": title, "genre": genre });
        a.put(&app, "books", "b1", &row).await;
        b.row_becomes(&app, "books", "b1", &{
            let mut row = row.clone();
            row["id"] = json!("b1");
            row
        })
        .await;
    }
    a.client().delete(&app, "books", "b1", None).await.unwrap();
    for stream in &mut plain {
        let names: Vec<_> = told(stream, 5).await.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["insert", "update", "update", "update", "delete"]);
    }
    for stream in &mut filtered {
        let told = told(stream, 5).await;
        let told: Vec<_> = told.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
        let wished = [
            ("insert", ""),
            ("update", "stay"),
            ("leave", "filtered-out"),
            ("update", "enter"),
            ("delete", ""),
        ];
        assert_eq!(told, wished);
    }
}
