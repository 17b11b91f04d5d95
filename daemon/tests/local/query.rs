//! Queries: filters, sorts, pages, totals, projections, imports.

use serde_json::json;

use crate::support::{Running, Start};

const TABLE: &str = "/v1/apps/shop/tables/items";

async fn with_rows(count: usize) -> Running {
    let daemon = Start::default().fresh().await;
    let lines: String = (0..count)
        .map(|n| format!("{}\n", json!({"id":format!("r{n:05}"),"group":n % 3,"n":n})))
        .collect();
    let import = daemon.post(&format!("{TABLE}/import"), "").body("application/x-ndjson", lines);
    let answer = import.send().await.ok();
    assert_eq!(answer.json()["rows"], count);
    daemon
}

fn ids(answer: &serde_json::Value) -> Vec<&str> {
    answer["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn pages_join_to_the_whole_in_every_order() {
    let daemon = with_rows(2_345).await;
    for sort in [json!([]), json!(["-group", "n"]), json!(["-id"]), json!(["-_ver.id"])] {
        let mut seen = Vec::new();
        let mut after = json!(null);
        loop {
            let body = json!({"sort":sort,"limit":1000,"after":after,"includeTotal":true});
            let query = daemon.post(&format!("{TABLE}/query"), body.to_string());
            let page = query.send().await.ok().json();
            assert_eq!(page["total"], 2_345);
            seen.extend(ids(&page).into_iter().map(str::to_owned));
            assert_eq!(page["hasNext"], !page["next"].is_null());
            if page["next"].is_null() {
                break;
            }
            after = page["next"].clone();
        }
        assert_eq!(seen.len(), 2_345, "{sort}");
        let mut unique = seen.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 2_345, "{sort}");
        if sort == json!([]) {
            assert_eq!(seen, unique);
        }
        if sort == json!(["-id"]) {
            assert!(seen.iter().rev().eq(unique.iter()));
        }
    }
    daemon.stop().await;
}

#[tokio::test]
async fn filters_by_id_and_equality() {
    let daemon = with_rows(30).await;
    let ask = async |body: serde_json::Value| {
        daemon.post(&format!("{TABLE}/query"), body.to_string()).send().await.ok().json()
    };
    let found = ask(json!({"filter":{"id":"r00007"},"includeTotal":true})).await;
    assert_eq!((ids(&found), &found["total"]), (vec!["r00007"], &json!(1)));
    assert_eq!(ids(&ask(json!({"filter":{"id":"nobody"}})).await), Vec::<&str>::new());
    assert_eq!(ids(&ask(json!({"filter":{"id":7}})).await), Vec::<&str>::new());
    let found = ask(json!({"filter":{"group":1,"n":{"$eq":4}}})).await;
    assert_eq!(ids(&found), ["r00004"]);
    let found =
        ask(json!({"filter":{"group":1},"sort":["-n"],"limit":2,"offset":1,"includeTotal":true}))
            .await;
    assert_eq!((ids(&found), &found["total"]), (vec!["r00025", "r00022"], &json!(10)));
    assert_eq!(found["hasNext"], true);
    let found = ask(json!({"limit":1,"projection":{"n":1}})).await;
    assert_eq!(found["records"], json!([{"id":"r00000","n":0}]));

    let by_params = "rows?filter=%7B%22group%22:2%7D&sort=-n&limit=2&includeTotal=true";
    let found = daemon.get(&format!("{TABLE}/{by_params}")).send().await.ok().json();
    assert_eq!((ids(&found), &found["total"]), (vec!["r00029", "r00026"], &json!(10)));
    let empty = daemon.get("/v1/apps/shop/tables/nothing/rows").send().await.ok().json();
    assert_eq!(empty["records"], json!([]));
    daemon.stop().await;
}

#[tokio::test]
async fn what_cannot_be_asked() {
    let daemon = with_rows(1).await;
    for (body, status, code) in [
        (json!({"filter":{"n":{"$gte":1}}}), 400, "filter.unknown_operator"),
        (json!({"filter":{"$or":[]}}), 400, "filter.unknown_operator"),
        (json!({"filter":[]}), 400, "filter.invalid"),
        (json!({"sort":"n"}), 400, "request.invalid_field"),
        (json!({"limit":1001}), 400, "request.invalid_field"),
        (json!({"limit":-1}), 400, "request.invalid_field"),
        (json!({"offset":10001}), 400, "query.offset_too_large"),
        (json!({"after":"zz"}), 400, "request.invalid_field"),
        (json!({"projection":{"a":1,"b":0}}), 400, "request.invalid_field"),
        (json!({"limt":1}), 400, "request.unknown_field"),
    ] {
        let reply = daemon.post(&format!("{TABLE}/query"), body.to_string()).send().await;
        let error = reply.refused(status, code);
        if code == "filter.unknown_operator" {
            assert!(error["details"]["accepted"].is_array(), "{error}");
        }
    }
    for (query, code) in [
        ("limt=1", "request.unknown_field"),
        ("limit=x", "request.invalid_field"),
        ("limit=1&limit=2", "request.invalid_field"),
        ("filter=%7B", "request.bad_json"),
    ] {
        daemon.get(&format!("{TABLE}/rows?{query}")).send().await.refused(400, code);
    }
    daemon.stop().await;
}

#[tokio::test]
async fn an_import_stops_at_a_bad_line_and_says_what_stayed() {
    let daemon = Start::default().fresh().await;
    let import = |text: String| {
        daemon.post(&format!("{TABLE}/import"), "").body("application/x-ndjson", text)
    };
    let mut lines: String = (0..1_500).map(|n| format!("{{\"id\":\"{n}\"}}\n")).collect();
    lines.push_str("{\"id\":\"x\",}\n");
    lines.push_str("{\"id\":\"y\"}\n");
    let error = import(lines).send().await.refused(400, "request.bad_json");
    assert_eq!(error["details"]["line"], 1_501);
    assert_eq!(error["details"]["rows"], 1_000, "whole transactions stay");
    let page = daemon.get(&format!("{TABLE}/rows?limit=1&includeTotal=true")).send().await.json();
    assert_eq!(page["total"], 1_000);

    let fine = import("\n{\"a\":1}\r\n  \n{\"a\":2}".to_owned()).send().await.ok().json();
    assert_eq!(fine["rows"], 2);
    import(String::new()).send().await.ok();
    daemon
        .post(&format!("{TABLE}/import"), "{}")
        .send()
        .await
        .refused(415, "request.unsupported_media_type");
    daemon.stop().await;
}

#[tokio::test]
async fn a_page_of_large_rows_ends_early_and_the_next_goes_on() {
    let daemon = Start::default().fresh().await;
    let text = "x".repeat(250_000);
    for part in 0..13 {
        let lines: String = (0..4)
            .map(|n| format!("{}\n", json!({"id":format!("r{:02}", part * 4 + n),"t":text})))
            .collect();
        let import = daemon.post(&format!("{TABLE}/import"), "");
        import.body("application/x-ndjson", lines).send().await.ok();
    }
    let mut seen = Vec::new();
    let mut pages = 0;
    let mut after = json!(null);
    loop {
        let body = json!({"sort":["-id"],"limit":1000,"after":after,"includeTotal":true});
        let reply = daemon.post(&format!("{TABLE}/query"), body.to_string()).send().await.ok();
        assert!(reply.text.len() < 9 << 20, "{}", reply.text.len());
        let page = reply.json();
        assert_eq!(page["total"], 52);
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        pages += 1;
        if page["next"].is_null() {
            break;
        }
        after = page["next"].clone();
    }
    assert!(pages == 2 && seen.len() == 52 && seen.is_sorted_by(|a, b| a > b), "{pages} {seen:?}");
    daemon.stop().await;
}
