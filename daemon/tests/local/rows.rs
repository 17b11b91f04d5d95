//! One row at a time: the record's shape, versions and conditions, patches, refusals.

use crate::support::{Running, Start};

const ROWS: &str = "/v1/apps/notes/tables/notes/rows";

async fn started() -> Running {
    Start::default().fresh().await
}

#[tokio::test]
async fn a_row_is_made_read_changed_and_deleted() {
    let daemon = started().await;
    let made = daemon.post(ROWS, r#"{"id":"n1","title":"hi","tags":["a"]}"#).send().await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.head.headers["location"], format!("{ROWS}/n1"));
    let first = made.position.unwrap();
    assert_eq!(made.etag.as_deref(), Some(&*format!("\"{first}\"")));
    assert_eq!(made.json()["id"], "n1");
    assert_eq!(made.json()["_ver"]["position"], first.to_string());
    assert_eq!(made.json()["_ver"]["id"].as_str().unwrap().len(), 32);

    let read = daemon.get(&format!("{ROWS}/n1")).send().await.ok();
    let record = read.json();
    assert_eq!(record["title"], "hi");
    assert_eq!(record["tags"], serde_json::json!(["a"]));
    assert_eq!(record["_ver"], made.json()["_ver"]);
    assert_eq!(read.position, Some(first));
    for (name, value) in [
        ("tidings-api-version", "1"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(read.head.headers[name], value);
    }

    let set = r#"{"$set":{"title":"ho","n":1},"$unset":{"tags":true}}"#;
    let patched = daemon.patch(&format!("{ROWS}/n1"), set).send().await.ok();
    assert!(patched.position.unwrap() > first);
    assert!(patched.json()["_ver"]["id"].as_str() > made.json()["_ver"]["id"].as_str());
    let merged = daemon.merge(&format!("{ROWS}/n1"), r#"{"n":null,"m":[2]}"#).send().await.ok();
    let record = daemon.get(&format!("{ROWS}/n1")).send().await.json();
    assert_eq!(record["_ver"], merged.json()["_ver"]);
    let mut columns = record.as_object().unwrap().clone();
    columns.remove("_ver");
    assert_eq!(
        serde_json::Value::Object(columns),
        serde_json::json!({"id":"n1","title":"ho","m":[2]})
    );

    let replaced = daemon.put(&format!("{ROWS}/n1"), r#"{"only":true}"#).send().await;
    assert_eq!(replaced.status, 200);
    let record = daemon.get(&format!("{ROWS}/n1")).send().await.json();
    assert_eq!(record.get("title"), None, "a put replaces the whole row");
    // What was read can be put back.
    daemon.put(&format!("{ROWS}/n1"), record.to_string()).send().await.ok();

    let deleted = daemon.delete(&format!("{ROWS}/n1")).send().await.ok();
    assert_eq!(deleted.json().get("_ver"), None);
    daemon.get(&format!("{ROWS}/n1")).send().await.refused(404, "row.not_found");
    daemon.delete(&format!("{ROWS}/n1")).send().await.refused(404, "row.not_found");
    daemon.patch(&format!("{ROWS}/n1"), set).send().await.refused(404, "row.not_found");
    let again = daemon.put(&format!("{ROWS}/n1"), r#"{"back":1}"#).send().await;
    assert_eq!(again.status, 201);
    daemon.stop().await;
}

#[tokio::test]
async fn an_id_is_text_and_the_daemon_makes_one_where_there_is_none() {
    let daemon = started().await;
    let made = daemon.post(ROWS, r#"{"title":"x"}"#).send().await.ok();
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!((id.len(), id.as_bytes()[14]), (36, b'7'), "a UUIDv7: {id}");
    daemon.get(&format!("{ROWS}/{id}")).send().await.ok();

    for wrong in [r#"{"id":5}"#, r#"{"id":null}"#, r#"{"id":""}"#, r#"{"id":"a\u0000"}"#, "[]", "7"]
    {
        daemon.post(ROWS, wrong).send().await.refused(400, "row.invalid");
    }
    let long = "x".repeat(512);
    daemon.post(ROWS, format!(r#"{{"id":"{long}"}}"#)).send().await.ok();
    daemon.get(&format!("{ROWS}/{long}")).send().await.ok();
    daemon.post(ROWS, format!(r#"{{"id":"{long}x"}}"#)).send().await.refused(400, "row.invalid");
    daemon.get(&format!("{ROWS}/{long}x")).send().await.refused(400, "request.invalid_field");
    daemon
        .put(&format!("{ROWS}/a"), r#"{"id":"b"}"#)
        .send()
        .await
        .refused(400, "request.invalid_field");
    daemon.stop().await;
}

#[tokio::test]
async fn a_condition_holds_or_nothing_happens() {
    let daemon = started().await;
    let path = format!("{ROWS}/c");
    daemon
        .put(&path, "{}")
        .header("if-match", "*")
        .send()
        .await
        .refused(412, "row.version_mismatch");
    let made = daemon.post(ROWS, r#"{"id":"c","n":1}"#).send().await.ok();
    daemon.post(ROWS, r#"{"id":"c"}"#).send().await.refused(409, "row.exists");
    let first = made.etag.unwrap();
    let second = daemon.patch(&path, r#"{"$set":{"n":2}}"#).header("if-match", &first).send().await;
    let second = second.ok().etag.unwrap();
    for call in
        [daemon.put(&path, "{}"), daemon.patch(&path, r#"{"$set":{"n":3}}"#), daemon.delete(&path)]
    {
        let error = call.header("if-match", &first).send().await;
        let error = error.refused(412, "row.version_mismatch");
        assert_eq!(error["details"]["position"], second.trim_matches('"'));
    }
    assert_eq!(daemon.get(&path).send().await.json()["n"], 2);
    for wrong in ["", "W/\"1\"", "x", "\"1\", \"2\""] {
        daemon
            .delete(&path)
            .header("if-match", wrong)
            .send()
            .await
            .refused(400, "request.invalid_field");
    }
    daemon.delete(&path).header("if-match", "*").send().await.ok();
    daemon.stop().await;
}

#[tokio::test]
async fn what_has_no_merge_rule_yet_is_refused_and_never_overwrites() {
    let daemon = started().await;
    daemon.post(ROWS, r#"{"id":"p","a":{"b":1},"n":1,"s":["x"]}"#).send().await.ok();
    let before = daemon.get(&format!("{ROWS}/p")).send().await.text;
    let path = format!("{ROWS}/p");
    for later in [
        r#"{"$inc":{"n":1}}"#,
        r#"{"$addToSet":{"s":"y"}}"#,
        r#"{"$pull":{"s":"x"}}"#,
        r#"{"$set":{"a.b":2}}"#,
        r#"{"$unset":{"a.b":1}}"#,
    ] {
        daemon.patch(&path, later).send().await.refused(400, "request.not_yet");
    }
    daemon.merge(&path, r#"{"a":{"b":2}}"#).send().await.refused(400, "request.not_yet");
    let error = daemon.patch(&path, r#"{"$push":{"s":"y"}}"#).send().await;
    let error = error.refused(400, "request.unknown_operator");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("use `$addToSet`, or a row per element"), "{message}");
    assert_eq!(error["details"]["accepted"][0], "$set");
    daemon.patch(&path, r#"{"n":2}"#).send().await.refused(400, "request.unknown_operator");
    assert_eq!(daemon.get(&path).send().await.text, before);
    daemon.stop().await;
}

#[tokio::test]
async fn a_reader_waits_for_what_another_wrote() {
    let daemon = started().await;
    let made = daemon.post(ROWS, r#"{"id":"w"}"#).send().await.ok();
    let next = made.position.unwrap() + 1;
    let reading = daemon.get(&format!("{ROWS}/w?minPosition={next}&wait=30")).send();
    let writing = daemon.patch(&format!("{ROWS}/w"), r#"{"$set":{"x":1}}"#).send();
    let (read, _) = tokio::join!(reading, writing);
    assert_eq!(read.ok().json()["x"], 1);
    daemon
        .get(&format!("{ROWS}/w?minPosition={}&wait=0", next + 1))
        .send()
        .await
        .refused(408, "request.timeout");
    daemon.stop().await;
}

#[tokio::test]
async fn tables_and_apps_are_listed() {
    let daemon = started().await;
    assert_eq!(daemon.get("/v1/apps").send().await.json(), serde_json::json!({"apps":[]}));
    daemon.get("/v1/apps/notes/tables").send().await.refused(404, "app.not_found");
    daemon.get("/v1/apps/notes/tables/x").send().await.refused(404, "table.not_found");
    daemon.get("/v1/apps/-/tables").send().await.refused(400, "request.invalid_field");
    daemon.post(ROWS, r#"{"id":"1"}"#).send().await.ok();
    daemon.post(ROWS, r#"{"id":"2"}"#).send().await.ok();
    daemon.delete(&format!("{ROWS}/1")).send().await.ok();
    let declared = daemon.put("/v1/apps/notes/tables/tags", r#"{"read":"public"}"#).send().await;
    assert_eq!(declared.ok().json()["declared"]["read"], "public");
    let tables = daemon.get("/v1/apps/notes/tables").send().await.json();
    assert_eq!(
        tables["tables"],
        serde_json::json!([
            {"name":"notes","rows":1},
            {"name":"tags","rows":0,"declared":{"read":"public"}},
        ])
    );
    let apps = daemon.get("/v1/apps").send().await.json();
    assert_eq!((&apps["apps"][0]["id"], &apps["apps"][0]["rows"]), (&"notes".into(), &1.into()));
    daemon
        .put("/v1/apps/notes/tables/tags", r#"{"schema":{}}"#)
        .send()
        .await
        .refused(400, "request.not_yet");
    daemon
        .put("/v1/apps/notes/tables/tags", r#"{"x":1}"#)
        .send()
        .await
        .refused(400, "request.unknown_field");
    daemon.stop().await;
}
