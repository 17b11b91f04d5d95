//! O25: text cut in the middle of an emoji leaves half a surrogate pair; the strict parser
//! rejects the whole record and it vanishes.

use http::Method;
use serde_json::json;
use tidings_client::local::LocalError;
use tidings_tests::House;
use tidings_wire::AppId;

#[tokio::test(flavor = "multi_thread")]
async fn o25_half_a_character_is_refused_with_its_place() {
    let app: AppId = "notes".parse().unwrap();
    let house = House::new(&["a", "b"]).await;
    let (a, b) = (house.device(0), house.device(1));
    let rows = format!("/v1/apps/{app}/tables/t/rows");

    let x = r#"{"id":"x","t":"cut \ud83d"}"#;
    let refused = a.send_raw(Method::POST, &rows, x).await;
    let Err(LocalError::Problem { status: 400, problem }) = refused else {
        panic!("not refused: {refused:?}");
    };
    let at = x.find(r"\ud83d").unwrap();
    assert!(problem.message.contains(&format!("at byte {at}")), "{problem}");

    let y = r#"{"id":"y","t":"\ud83d\udc4a"}"#;
    a.send_raw(Method::POST, &rows, y).await.unwrap();
    let whole = json!({ "id": "y", "t": "\u{1f44a}" });
    a.row_becomes(&app, "t", "y", &whole).await;
    b.row_becomes(&app, "t", "y", &whole).await;
    let stored = a.send_raw(Method::GET, &format!("{rows}/y"), "").await.unwrap().body;
    assert!(String::from_utf8(stored.to_vec()).unwrap().contains('\u{1f44a}'));

    // A batch is all or nothing: with one such row in it, no row of it is there.
    let put = |id: usize| format!(r#"{{"op":"put","table":"t","id":"z{id}","row":{{"n":{id}}}}}"#);
    let half = r#"{"op":"put","table":"t","id":"x","row":{"t":"cut \ud83d"}}"#.to_owned();
    let ops: Vec<_> = (0..9).map(put).chain([half]).collect();
    let batch = format!(r#"{{"ops":[{}]}}"#, ops.join(","));
    let refused = a.send_raw(Method::POST, &format!("/v1/apps/{app}/batch"), batch).await;
    assert!(matches!(refused, Err(LocalError::Problem { status: 400, .. })), "{refused:?}");
    assert_eq!(a.rows(&app, "t").await.len(), 1);

    // Nothing half accepted waits to be pushed, and other rows go on.
    a.put(&app, "t", "later", &json!({ "n": 1 })).await;
    b.row_becomes(&app, "t", "later", &json!({ "id": "later", "n": 1 })).await;
    a.synced().await;
    assert_eq!(b.rows(&app, "t").await.len(), 2);
}
