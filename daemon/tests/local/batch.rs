//! Batches: one transaction, all or nothing, or a result for each.

use serde_json::json;

use crate::support::Start;

const BATCH: &str = "/v1/apps/notes/batch";
const ROWS: &str = "/v1/apps/notes/tables/t/rows";

#[tokio::test]
async fn an_atomic_batch_is_stored_whole_or_not_at_all() {
    let daemon = Start::default().fresh().await;
    let ops = json!({"ops":[
        {"op":"insert","table":"t","id":"a","row":{"n":1}},
        {"op":"put","table":"u","row":{"id":"b","n":2}},
        {"op":"update","table":"t","id":"a","patch":{"$set":{"n":3}}},
        {"op":"insert","table":"t","row":{"n":4}},
    ],"mutation_id":"m1"});
    let done = daemon.post(BATCH, ops.to_string()).send().await.ok();
    let answer = done.json();
    assert_eq!(answer["position"], done.position.unwrap().to_string());
    let statuses: Vec<_> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 201, 200, 201]);
    assert_eq!(answer["results"][0]["_ver"], answer["results"][2]["_ver"], "after the batch");
    assert_eq!(daemon.get(&format!("{ROWS}/a")).send().await.json()["n"], 3);

    let ops = json!({"ops":[
        {"op":"delete","table":"t","id":"a"},
        {"op":"insert","table":"u","id":"b","row":{}},
    ]});
    let error = daemon.post(BATCH, ops.to_string()).send().await.refused(409, "row.exists");
    assert_eq!(error["details"]["op"], 1);
    daemon.get(&format!("{ROWS}/a")).send().await.ok();
    daemon.stop().await;
}

#[tokio::test]
async fn without_atomic_each_operation_has_its_result() {
    let daemon = Start::default().fresh().await;
    let first = daemon.post(ROWS, r#"{"id":"a"}"#).send().await.ok().position.unwrap();
    let ops = json!({"atomic":false,"ops":[
        {"op":"insert","table":"t","id":"a","row":{}},
        {"op":"insert","table":"t","id":"b","row":{}},
        {"op":"frobnicate","table":"t","id":"c"},
        {"op":"update","table":"t","id":"a","patch":{"$set":{"x":1}},"ifMatch":"1"},
        {"op":"update","table":"t","id":"a","patch":{"$set":{"x":1}},"ifMatch":first.to_string()},
        {"op":"insert","table":"t","id":"d","row":{"id":"e"}},
        {"op":"delete","table":"t","id":"nobody"},
    ]});
    let answer = daemon.post(BATCH, ops.to_string()).send().await.ok().json();
    let codes: Vec<_> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| {
            (
                result["status"].as_u64().unwrap(),
                result["error"]["code"].as_str().unwrap_or("").to_owned(),
            )
        })
        .collect();
    let expected = [
        (409, "row.exists"),
        (201, ""),
        (400, "request.invalid_field"),
        (412, "row.version_mismatch"),
        (200, ""),
        (400, "request.invalid_field"),
        (404, "row.not_found"),
    ];
    assert_eq!(codes, expected.map(|(status, code)| (status, code.to_owned())));
    assert_eq!(daemon.get(&format!("{ROWS}/a")).send().await.json()["x"], 1);
    daemon.stop().await;
}

#[tokio::test]
async fn a_batch_has_limits_and_a_shape() {
    let daemon = Start::default().fresh().await;
    let op = |n: usize| json!({"op":"put","table":"t","id":n.to_string(),"row":{}});
    let full = json!({"ops":(0..500).map(op).collect::<Vec<_>>()});
    daemon.post(BATCH, full.to_string()).send().await.ok();
    let over = json!({"ops":(0..501).map(op).collect::<Vec<_>>()});
    daemon.post(BATCH, over.to_string()).send().await.refused(413, "request.too_large");
    for (body, code) in [
        (r#"{}"#, "request.missing_field"),
        (r#"{"ops":{}}"#, "request.invalid_field"),
        (r#"{"ops":[],"atomc":true}"#, "request.unknown_field"),
        (r#"{"ops":[{"op":"put","table":"t","row":{},"x":1}]}"#, "request.unknown_field"),
        (r#"{"ops":[{"op":"put","table":"t"}]}"#, "request.missing_field"),
        (r#"{"ops":[{"op":"update","table":"t","patch":{}}]}"#, "request.missing_field"),
        (r#"{"ops":[{"op":"update","table":"t","id":"a","row":{}}]}"#, "request.invalid_field"),
        (r#"{"ops":[{"op":"put","table":"","row":{}}]}"#, "request.invalid_field"),
        (r#"{"ops":[5]}"#, "request.invalid_field"),
        (r#"{"ops":[],"mutation_id":""}"#, "request.invalid_field"),
    ] {
        daemon.post(BATCH, body).send().await.refused(400, code);
    }
    let empty = daemon.post(BATCH, r#"{"ops":[]}"#).send().await.ok();
    assert_eq!(empty.json()["results"], json!([]));
    daemon.stop().await;
}
