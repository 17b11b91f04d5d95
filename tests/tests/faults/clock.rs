//! Wall clocks that are wrong by a year, and that are set while programs run.

use serde_json::json;
use tidings_tests::apart::WallClock;
use tidings_tests::{Device, House, Server};
use tidings_wire::local::{StatusAnswer, SyncState};

use super::{alarms, doctor, finds, notes};

fn device(name: &str) -> Device {
    Device::new(name).set("sync.poll=500ms")
}

/// The clock's alarm, which says so; the rest is in order.
fn says(status: &StatusAnswer, words: &str) -> bool {
    let clock: Vec<_> =
        status.alarms.iter().filter(|alarm| alarm.code == "clock_differs").collect();
    status.state == SyncState::Synced && clock.len() == 1 && clock[0].message.contains(words)
}

/// This computer's clock jumps by a year and back: the person is told once, nothing is lost, and
/// the later of two writes wins however the clocks stand.
#[tokio::test(flavor = "multi_thread")]
async fn f08_this_computers_clock_jumps_by_a_year() {
    let app = notes();
    let clock = WallClock::new();
    let server = Server::with(&["auth.token_life=2s"]);
    let mut a = device("a");
    a.resume_with(|command| clock.rule(command)).await;
    a.create_account(&server.url()).await;
    let mut b = device("b");
    b.resume().await;
    a.link(&b, &server.url()).await;
    a.put(&app, "t", "contested", &json!({ "by": "a" })).await;
    b.rows_become(&app, "t", 1).await;

    let mut rows = 1;
    for (offset, words) in [("+365d", "365 d ahead of"), ("-365d", "365 d behind")] {
        clock.set(offset);
        // Written before any answer could tell how wrong the clock is by now.
        let id = format!("at {offset}");
        a.put(&app, "t", &id, &json!({ "by": "a" })).await;
        a.put(&app, "t", "contested", &json!({ "by": format!("a {offset}") })).await;
        rows += 1;
        let told = a.status_until(words, |status| says(status, words)).await;
        assert_eq!(alarms(&told), ["clock_differs"]);
        let (code, found) = doctor(&a);
        assert_eq!(code, 4, "{found:?}");
        finds(&found, "alarm", &[words, "set this computer's clock right"]);
        b.rows_become(&app, "t", rows).await;
        let by = json!({ "id": "contested", "by": format!("a {offset}") });
        b.row_becomes(&app, "t", "contested", &by).await;
        // The other one's clock is right, and its write is the later one.
        b.put(&app, "t", "contested", &json!({ "by": format!("b after {offset}") })).await;
        let by = json!({ "id": "contested", "by": format!("b after {offset}") });
        a.row_becomes(&app, "t", "contested", &by).await;
        // Nobody else is told that a's writes come from the future.
        assert_eq!(alarms(&b.status().await), [""; 0]);
    }
    clock.set("+0");
    a.status_until("the warning is taken back", |status| status.alarms.is_empty()).await;
    assert_eq!(a.rows(&app, "t").await, b.rows(&app, "t").await);
}

/// A clock that was wrong before the daemon was ever started.
#[tokio::test(flavor = "multi_thread")]
async fn f08_a_computer_links_with_a_clock_a_year_behind() {
    let app = notes();
    let mut house = House::of(Server::start(), None, [device("a")]).await;
    let clock = WallClock::new();
    clock.set("-365d");
    let mut b = device("b");
    b.resume_with(|command| clock.rule(command)).await;
    let url = house.url();
    house.device(0).link(&b, &url).await;
    house.devices.push(b);
    let (a, b) = (house.device(0), house.device(1));
    a.put(&app, "t", "r", &json!({ "by": "a" })).await;
    b.rows_become(&app, "t", 1).await;
    b.put(&app, "t", "r", &json!({ "by": "b" })).await;
    a.row_becomes(&app, "t", "r", &json!({ "id": "r", "by": "b" })).await;
    b.status_until("it is told", |status| says(status, "365 d behind")).await;
}

/// The server's clock jumps by a year: signing in goes by the server's time alone, so nobody has
/// to sign in again, and both devices say which clock differs.
#[tokio::test(flavor = "multi_thread")]
async fn f08_the_servers_clock_jumps_by_a_year() {
    let app = notes();
    let clock = WallClock::new();
    let mut server = Server::with(&["auth.token_life=2s"]);
    server.stop();
    server.resume_with(|command| clock.rule(command));
    let house = House::of(server, None, [device("a"), device("b")]).await;
    let (a, b) = (house.device(0), house.device(1));
    a.put(&app, "t", "r", &json!({ "n": 0 })).await;
    b.rows_become(&app, "t", 1).await;
    for (n, offset, words) in [(1, "+365d", "365 d behind"), (2, "-365d", "365 d ahead of")] {
        clock.set(offset);
        b.put(&app, "t", "r", &json!({ "n": n })).await;
        a.row_becomes(&app, "t", "r", &json!({ "id": "r", "n": n })).await;
        for device in [a, b] {
            device.status_until(words, |status| says(status, words)).await;
        }
    }
    clock.set("+0");
    for device in [a, b] {
        device.status_until("the warning is taken back", |status| status.alarms.is_empty()).await;
    }
}
