//! O02: the text decoder is restarted for each read, so a character cut by a read boundary turns
//! into U+FFFD.

use serde_json::json;
use tidings_client::local::Client;
use tidings_tests::feed::Feed;
use tidings_tests::{DEADLINE, Device, House, Process, Proxy, Server, within};
use tidings_wire::AppId;

const PIECES: &[&[u8]] =
    &[b"event: insert\ndata: {\"t\":\"\xe5", b"\x8c", b"\x97\xf0\x9f", b"\x8c\x8d\"}\n\n"];
const TEXT: &str = "\u{5317}\u{1f30d}";

#[tokio::test(flavor = "multi_thread")]
async fn o02_a_character_may_come_in_pieces() {
    let app: AppId = "notes".parse().unwrap();
    let feed = Feed::start();
    let client = Client::new(feed.socket());
    let whole = PIECES.concat();
    let cuts = (0..=whole.len()).map(|cut| vec![&whole[..cut], &whole[cut..]]);
    for pieces in std::iter::once(PIECES.to_vec()).chain(cuts) {
        feed.serve(&pieces);
        let options = Default::default();
        let mut stream = client.watch(&app, &["t".to_owned()], &options).await.unwrap();
        let event = within("an event", DEADLINE, stream.next()).await.unwrap().unwrap();
        assert_eq!(event.name, "insert");
        assert_eq!(event.data, format!("{{\"t\":\"{TEXT}\"}}"), "in {} pieces", pieces.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o02_the_command_line_prints_whole_characters() {
    let feed = Feed::start();
    feed.serve(PIECES);
    let mut watch = feed.command(&["--app", "notes", "--json", "watch", "t"]);
    let watch = Process::start("tidings watch", &mut watch);
    let line =
        watch.line("an insert", DEADLINE, |line| line.contains("insert").then(|| line.to_owned()));
    // A row that no daemon sends: `tidings watch --json` passes on what it reads.
    assert_eq!(line, format!("{{\"data\":{{\"t\":\"{TEXT}\"}},\"event\":\"insert\"}}"));
    assert!(!watch.log().contains('\u{fffd}'));
}

#[tokio::test(flavor = "multi_thread")]
async fn o02_a_pull_may_come_byte_by_byte() {
    let app: AppId = "notes".parse().unwrap();
    let server = Server::start();
    let proxy = Proxy::start(server.address()).await;
    let house = House::of(server, None, [Device::new("a")]).await;
    let a = house.device(0);
    for number in 0..10 {
        let text = TEXT.repeat(number * 20);
        a.put(&app, "t", &format!("r{number}"), &json!({ "t": text })).await;
    }
    a.synced().await;
    let b = Device::start("b").await;
    a.link(&b, &proxy.url()).await;
    proxy.chop(1);
    proxy.cut();
    for number in 0..10 {
        let id = format!("r{number}");
        let row = json!({ "id": id, "t": TEXT.repeat(number * 20) });
        b.row_becomes(&app, "t", &id, &row).await;
    }
    // Live changes too: the stream's bytes come one by one as well.
    a.put(&app, "t", "live", &json!({ "t": TEXT })).await;
    b.row_becomes(&app, "t", "live", &json!({ "id": "live", "t": TEXT })).await;
}
