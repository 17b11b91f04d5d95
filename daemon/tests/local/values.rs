//! Values and names exactly as they were written (field cases O24, O25, O29, O30).

use serde_json::json;

use crate::support::Start;

const TABLE: &str = "/v1/apps/v/tables/t";
const ROWS: &str = "/v1/apps/v/tables/t/rows";

#[tokio::test]
async fn large_integers_keep_every_digit() {
    let daemon = Start::default().fresh().await;
    let mut stream = daemon.stream(&format!("{TABLE}/stream")).await;
    stream.event().await;
    let rows = [
        ("a", "9196877626998784"),
        ("b", "9196877626998785"),
        ("c", "9007199254740993"),
        ("d", "18446744073709551615"),
    ];
    for (id, n) in rows {
        daemon.post(ROWS, format!(r#"{{"id":"{id}","n":{n}}}"#)).send().await.ok();
        let read = daemon.get(&format!("{ROWS}/{id}")).send().await.ok();
        assert!(
            read.text.contains(&format!(r#""n":{n}}}"#))
                || read.text.contains(&format!(r#""n":{n},"#)),
            "{}",
            read.text
        );
        stream.event().await;
        assert!(String::from_utf8_lossy(&stream.raw).contains(&format!(r#""n":{n}"#)));
    }
    let e = r#"{"id":"e","n":18446744073709551616}"#;
    daemon.post(ROWS, e).send().await.refused(400, "row.invalid");
    daemon.get(&format!("{ROWS}/e")).send().await.refused(404, "row.not_found");

    let query = json!({"filter":{"n":9_196_877_626_998_785_u64}}).to_string();
    let found = daemon.post(&format!("{TABLE}/query"), query).send().await.ok().json();
    assert_eq!(found["records"].as_array().unwrap().len(), 1);
    assert_eq!(found["records"][0]["id"], "b");
    let sorted = daemon.get(&format!("{ROWS}?sort=n")).send().await.ok().json();
    let ids: Vec<_> =
        sorted["records"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["c", "a", "b", "d"]);
    daemon.stop().await;
}

#[tokio::test]
async fn half_a_character_is_refused_and_takes_nothing_with_it() {
    let daemon = Start::default().fresh().await;
    let x = r#"{"id":"x","t":"cut \ud83d"}"#;
    let error = daemon.post(ROWS, x).send().await.refused(400, "row.invalid");
    assert!(error["details"]["column"].is_u64(), "{error}");
    daemon.post(ROWS, r#"{"id":"y","t":"\ud83d\udc4a"}"#).send().await.ok();
    let y = daemon.get(&format!("{ROWS}/y")).send().await.ok();
    assert_eq!(y.json()["t"], "👊");

    let ops: Vec<_> = (0..10)
        .map(|n| match n {
            4 => r#"{"op":"put","table":"t","row":{"id":"x","t":"\ud83d"}}"#.to_owned(),
            n => format!(r#"{{"op":"put","table":"t","row":{{"id":"b{n}"}}}}"#),
        })
        .collect();
    let batch = format!(r#"{{"ops":[{}]}}"#, ops.join(","));
    daemon.post("/v1/apps/v/batch", batch).send().await.refused(400, "row.invalid");
    let rows = daemon.get(&format!("{ROWS}?includeTotal=true")).send().await.json();
    assert_eq!(rows["total"], 1, "only y");
    daemon.stop().await;
}

#[tokio::test]
async fn odd_table_names_are_names() {
    let daemon = Start::default().fresh().await;
    let long = "x".repeat(255);
    for (name, encoded) in [
        ("org/model", "org%2Fmodel"),
        ("../../tmp/evil", "..%2F..%2Ftmp%2Fevil"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("📚", "%F0%9F%93%9A"),
        ("CON", "CON"),
        ("Tasks", "Tasks"),
        ("tasks", "tasks"),
        ("a b+c%?#", "a%20b%2Bc%25%3F%23"),
        (&long, &long),
    ] {
        let path = format!("/v1/apps/v/tables/{encoded}");
        let mut stream = daemon.stream(&format!("{path}/stream")).await;
        assert_eq!(stream.event().await.text("table"), name);
        daemon
            .post(
                &format!("{path}/rows"),
                json!({"id":name.chars().take(9).collect::<String>()}).to_string(),
            )
            .send()
            .await
            .ok();
        assert_eq!(stream.event().await.text("table"), name);
        let rows = daemon.get(&format!("{path}/rows")).send().await.ok().json();
        assert_eq!(rows["records"].as_array().unwrap().len(), 1, "{name}");
    }
    for encoded in ["", "a%00b", &"x".repeat(256), "%ff"] {
        let path = format!("/v1/apps/v/tables/{encoded}/rows");
        daemon.post(&path, r#"{"id":"1"}"#).send().await.refused(400, "request.invalid_field");
    }
    let tables = daemon.get("/v1/apps/v/tables").send().await.ok().json();
    assert_eq!(tables["tables"].as_array().unwrap().len(), 10);
    daemon.stop().await;
}

#[tokio::test]
async fn any_key_is_a_column() {
    let daemon = Start::default().fresh().await;
    let mut stream = daemon.stream(&format!("{TABLE}/stream")).await;
    stream.event().await;
    let text = r#"{"id":"k1",".0.0.0.2":2,"$type":"entry","a.b":{"c":1},"a":{"b":{"c":2}},"__proto__":{"x":1},"constructor":1,"ttl":"1234","op":"insert","table":"t","":3}"#;
    let written: serde_json::Value = serde_json::from_str(text).unwrap();
    daemon.post(ROWS, text).send().await.ok();
    let mut seen = vec![daemon.get(&format!("{ROWS}/k1")).send().await.json()];
    seen.push(stream.event().await.data["record"].clone());
    for filter in [r#"{"a.b.c":2}"#, r#"{"/a.b/c":1}"#, r#"{"/$type":"entry"}"#] {
        let query = format!(r#"{{"filter":{filter}}}"#);
        let found = daemon.post(&format!("{TABLE}/query"), query).send().await.ok().json();
        seen.push(found["records"][0].clone());
    }
    for mut record in seen {
        assert!(record.as_object_mut().unwrap().remove("_ver").is_some());
        assert_eq!(record, written);
    }
    let query = r#"{"filter":{"$type":"entry"}}"#;
    daemon
        .post(&format!("{TABLE}/query"), query)
        .send()
        .await
        .refused(400, "filter.unknown_operator");
    daemon.stop().await;
}

#[tokio::test]
async fn floats_come_back_bit_for_bit() {
    let daemon = Start::default().fresh().await;
    let numbers = "[0.1,1e300,5e-324,-0.0,1.0,1,1.7976931348623157e308,123456789.12345679]";
    daemon.post(ROWS, format!(r#"{{"id":"f","n":{numbers}}}"#)).send().await.ok();
    let read = daemon.get(&format!("{ROWS}/f")).send().await.json();
    let written: Vec<f64> = serde_json::from_str(numbers).unwrap();
    for (value, wanted) in read["n"].as_array().unwrap().iter().zip(written) {
        assert_eq!(value.as_f64().unwrap().to_bits(), wanted.to_bits(), "{value}");
    }
    daemon.post(ROWS, r#"{"id":"g","n":1e999}"#).send().await.refused(400, "row.invalid");
    daemon.stop().await;
}
