//! O11: the server commits a push but the reply is lost; the retry stores everything twice, or
//! loops on duplicate-key errors.

use serde_json::{Map, json};
use tidings_client::remote::PullFilter;
use tidings_tests::hand::plain;
use tidings_tests::{Hand, House, Proxy, Server};
use tidings_wire::AppId;
use tidings_wire::local::{BatchOp, BatchRequest, BatchVerb, ChangeKind};

#[tokio::test(flavor = "multi_thread")]
async fn o11_a_push_whose_answer_is_lost_is_stored_once() {
    let app: AppId = "notes".parse().unwrap();
    let server = Server::start();
    let proxy = Proxy::start(server.address()).await;
    let direct = server.url();
    let mut house = House::of(server, Some(proxy), [tidings_tests::Device::new("a")]).await;
    let proxy = house.proxy.take().unwrap();
    let b = tidings_tests::Device::start("b").await;
    let a = house.device(0);
    a.link(&b, &direct).await;
    a.put(&app, "t", "before", &json!({})).await;
    b.rows_become(&app, "t", 1).await;
    a.synced().await;

    let mut stream = b.follow(&app, "t").await;
    proxy.lose_answers("POST /api/sync/push", 1);
    let insert = |number: usize| BatchOp {
        op: BatchVerb::Insert,
        table: "t".to_owned(),
        id: Some(format!("r{number}")),
        row: Some(Map::new()),
        patch: None,
        if_match: None,
    };
    let ops = (0..5).map(insert).collect();
    let batch = BatchRequest { ops, atomic: true, mutation_id: None };
    a.client().batch(&app, &batch).await.unwrap();
    proxy.lost(1).await;
    let status = a.synced().await;
    assert!(status.apps.iter().all(|app| app.pending == 0), "{status:?}");
    // What comes next on B's stream is the five and then what is written now: not ten.
    a.put(&app, "t", "after", &json!({})).await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        let change = stream.change().await;
        assert_eq!(change.kind, ChangeKind::Insert);
        ids.push(change.row_id);
    }
    assert_eq!(ids, ["r0", "r1", "r2", "r3", "r4", "after"]);
    assert_eq!(b.rows(&app, "t").await.len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn o11_the_same_push_by_hand_adds_nothing() {
    let app: AppId = "notes".parse().unwrap();
    let server = Server::start();
    let mut hand = Hand::create(&server.url()).await;
    let reader = hand.twin();
    let bodies: Vec<_> = (0..5)
        .map(|number| {
            let id = format!("r{number}");
            ("t", plain(&hand.body("t", &[(id.as_str(), json!({}))])))
        })
        .collect();
    let push = hand.seal(&app, &bodies);
    let first = hand.client().push(&app, &push).await.unwrap();
    let second = hand.client().push(&app, &push).await.unwrap();
    let third = hand.client().push(&app, &push).await.unwrap();
    assert!(!first.already && second.already && third.already);
    assert_eq!((first.position, first.head), (second.position, second.head));
    let page = reader.pull(&app, None, &PullFilter::default()).await.unwrap();
    assert_eq!(page.entries.len(), 5);
    assert_eq!(page.head, first.head);
}
