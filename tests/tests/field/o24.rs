//! O24: two different large integers read back as the same number.

use http::Method;
use serde_json::{Value, json};
use tidings_client::local::LocalError;
use tidings_tests::{Device, House};
use tidings_wire::AppId;
use tidings_wire::local::QueryRequest;

/// Ids and literal digits, in the order of the case.
const EXACT: [(&str, &str); 4] = [
    ("a", "9196877626998784"),
    ("b", "9196877626998785"),
    ("c", "9007199254740993"),
    ("d", "18446744073709551615"),
];

async fn raw(device: &Device, method: Method, path: &str, body: &str) -> String {
    let reply = device.send_raw(method, path, body.to_owned()).await.unwrap();
    String::from_utf8(reply.body.to_vec()).unwrap()
}

async fn reads_exactly(device: &Device, app: &AppId) {
    for (id, digits) in EXACT {
        let path = format!("/v1/apps/{app}/tables/t/rows/{id}");
        let read = raw(device, Method::GET, &path, "").await;
        assert!(read.contains(&format!("\"n\":{digits}")), "{}: {read}", device.name());
    }
    let query = format!("/v1/apps/{app}/tables/t/query");
    let sorted = raw(device, Method::POST, &query, r#"{"sort":["n"]}"#).await;
    let mut from = 0;
    for digits in ["9007199254740993", "9196877626998784", "9196877626998785", EXACT[3].1] {
        let at = sorted[from..].find(&format!("\"n\":{digits}"));
        from += at.unwrap_or_else(|| panic!("{digits} is out of order: {sorted}"));
    }
    let filter = r#"{"filter":{"n":9196877626998785}}"#;
    let only: Value =
        serde_json::from_str(&raw(device, Method::POST, &query, filter).await).unwrap();
    let ids: Vec<_> = only["records"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, ["b"], "{}", device.name());
}

#[tokio::test(flavor = "multi_thread")]
async fn o24_integers_keep_every_digit_everywhere() {
    let app: AppId = "numbers".parse().unwrap();
    let house = House::new(&["a", "b"]).await;
    let (a, b) = (house.device(0), house.device(1));
    let rows = format!("/v1/apps/{app}/tables/t/rows");
    let mut here = a.follow(&app, "t").await;
    let mut there = b.follow(&app, "t").await;
    for (id, digits) in EXACT {
        raw(a, Method::POST, &rows, &format!(r#"{{"id":"{id}","n":{digits}}}"#)).await;
        for stream in [&mut here, &mut there] {
            let event = stream.event().await;
            assert_eq!(event.name, "insert");
            assert!(event.data.contains(&format!("\"n\":{digits}")), "{}", event.data);
        }
    }
    reads_exactly(a, &app).await;
    reads_exactly(b, &app).await;

    // One more than u64 holds: refused, never rounded.
    let too_large = r#"{"id":"e","n":18446744073709551616}"#;
    let refused = a.send_raw(Method::POST, &rows, too_large).await;
    let Err(LocalError::Problem { status: 400, problem }) = refused else {
        panic!("not refused: {refused:?}");
    };
    assert!(problem.message.contains("18446744073709551615"), "{problem}");
    assert_eq!(a.row(&app, "t", "e").await, None);
    let page = a.client().query(&app, "t", &QueryRequest::default()).await.unwrap();
    assert_eq!(page.records.len(), 4);

    // It goes on serving.
    a.put(&app, "t", "f", &json!({ "n": 1 })).await;
    b.row_becomes(&app, "t", "f", &json!({ "id": "f", "n": 1 })).await;
}
