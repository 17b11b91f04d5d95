//! O18: stored ciphertexts are not tied to their id, so whoever holds the store can swap them
//! unnoticed.

use minicbor::bytes::ByteVec;
use serde_json::json;
use tidings_proof::Blob;
use tidings_tests::{Act, Alter, Device, Front, House};
use tidings_wire::AppId;
use tidings_wire::sync::{Entry, Item, PullResponse};

/// The blob of the entry at an index.
fn blob(page: &PullResponse, index: usize) -> Vec<u8> {
    match &page.entries[index].item {
        Item::Blob(bytes) => bytes.to_vec(),
        other => panic!("no blob: {other:?}"),
    }
}

/// A blob with its own header and signature around the sealed bytes of another.
fn with_body_of(own: &[u8], other: &[u8]) -> Item {
    let (own, other) = (Blob::parse(own).unwrap(), Blob::parse(other).unwrap());
    let other = other.bytes();
    // Header and signature are of fixed size in one app: what is between is sealed.
    let header = own.header().encode().len();
    let sealed = &other[header..other.len() - 64];
    let signature = own.signed_header().signature;
    Item::Blob(ByteVec::from(Blob::join(own.header(), sealed, &signature)))
}

/// A house whose first device wrote t/r1, t/r2, u/r1 and t/r1 again, each as a push of its own.
async fn written(app: &AppId) -> House {
    let house = House::new(&["a"]).await;
    let a = house.device(0);
    for (table, id, text) in [
        ("t", "r1", "one of t, first"),
        ("t", "r2", "two of t"),
        ("u", "r1", "one of u"),
        ("t", "r1", "one of t, second"),
    ] {
        a.put(app, table, id, &json!({ "text": text })).await;
        a.synced().await;
    }
    house
}

/// Links a device through a server that changes the first page of rows; later ones pass.
async fn linked(
    house: &House,
    change: impl Fn(PullResponse) -> PullResponse + Clone + Send + Sync + 'static,
) -> (Device, Front) {
    let front = Front::start(house.server.address()).await;
    front.script(move |request| {
        if request.uri.path() != "/api/sync/pull" {
            return Act::Pass;
        }
        let change = change.clone();
        Alter::by(move |page| if page.entries.len() == 4 { change(page) } else { page })
    });
    let device = Device::start("b").await;
    house.device(0).link(&device, &front.url()).await;
    (device, front)
}

/// Waits for so many quarantined blobs; then other rows go on arriving, and nothing of the blobs
/// is in the log.
async fn goes_on(house: &House, device: &Device, app: &AppId, quarantined: u64) {
    device
        .status_until("so many are quarantined", |status| {
            let found = status.apps.iter().find(|found| found.id == *app);
            found.is_some_and(|found| found.quarantined == quarantined)
        })
        .await;
    house.device(0).put(app, "t", "r3", &json!({ "text": "three of t" })).await;
    device.row_becomes(app, "t", "r3", &json!({ "id": "r3", "text": "three of t" })).await;
    assert!(!device.log().contains("of t"), "plaintext in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_bodies_swapped_within_a_table_do_not_open() {
    let app: AppId = "notes".parse().unwrap();
    let house = written(&app).await;
    let (b, _front) = linked(&house, |mut page| {
        let (first, second) = (blob(&page, 0), blob(&page, 1));
        page.entries[0].item = with_body_of(&first, &second);
        page.entries[1].item = with_body_of(&second, &first);
        page
    })
    .await;
    goes_on(&house, &b, &app, 2).await;
    let second = json!({ "id": "r1", "text": "one of t, second" });
    b.row_becomes(&app, "t", "r1", &second).await;
    assert_eq!(b.row(&app, "t", "r2").await, None);
    assert_eq!(b.rows(&app, "u").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_bodies_swapped_between_tables_do_not_open() {
    let app: AppId = "notes".parse().unwrap();
    let house = written(&app).await;
    let (b, _front) = linked(&house, |mut page| {
        let (of_t, of_u) = (blob(&page, 1), blob(&page, 2));
        page.entries[1].item = with_body_of(&of_t, &of_u);
        page.entries[2].item = with_body_of(&of_u, &of_t);
        page
    })
    .await;
    goes_on(&house, &b, &app, 2).await;
    assert_eq!(b.row(&app, "t", "r2").await, None);
    assert!(b.rows(&app, "u").await.is_empty());
    b.row_becomes(&app, "t", "r1", &json!({ "id": "r1", "text": "one of t, second" })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_whole_blobs_that_change_places_show_no_wrong_row() {
    let app: AppId = "notes".parse().unwrap();
    let house = written(&app).await;
    let (b, _front) = linked(&house, |mut page| {
        let (first, second) = (blob(&page, 0), blob(&page, 1));
        page.entries[0].item = Item::Blob(ByteVec::from(second));
        page.entries[1].item = Item::Blob(ByteVec::from(first));
        page
    })
    .await;
    // Nothing is lost: where a place is proved wrong the lane waits and is read again.
    b.row_becomes(&app, "t", "r1", &json!({ "id": "r1", "text": "one of t, second" })).await;
    b.row_becomes(&app, "t", "r2", &json!({ "id": "r2", "text": "two of t" })).await;
    goes_on(&house, &b, &app, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_an_old_version_served_again_replaces_nothing() {
    let app: AppId = "notes".parse().unwrap();
    let house = written(&app).await;
    let (b, _front) = linked(&house, |mut page| {
        let old = page.entries[0].clone();
        let newest = page.entries[3].position;
        // The old blob once more, where the newest stands and above it.
        page.entries.push(Entry { position: newest, ..old });
        page
    })
    .await;
    b.row_becomes(&app, "t", "r1", &json!({ "id": "r1", "text": "one of t, second" })).await;
    let last = house.device(0);
    last.put(&app, "t", "r3", &json!({ "text": "three of t" })).await;
    b.row_becomes(&app, "t", "r3", &json!({ "id": "r3", "text": "three of t" })).await;
    b.row_becomes(&app, "t", "r1", &json!({ "id": "r1", "text": "one of t, second" })).await;
    house.device(0).synced().await;
    assert_eq!(b.rows(&app, "t").await, house.device(0).rows(&app, "t").await);
}
