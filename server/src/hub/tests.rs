use std::task::{Context, Poll, Waker};

use super::*;

const ACCOUNT: AccountId = AccountId([1; 16]);

fn hub() -> Arc<Hub> {
    Hub::new(HubLimits { per_channel: 2, per_account: 3, pending: 4 })
}

fn listener(device: u8, incarnation: Option<u8>, app: &str) -> Listener {
    let selection = if app == "*" { Selection::All } else { Selection::One(app.into()) };
    Listener {
        account: ACCOUNT,
        device: DeviceId([device; 16]),
        incarnation: incarnation.map(|byte| Incarnation([byte; 8])),
        selection,
    }
}

fn replica(device: u8, incarnation: u8) -> Replica {
    Replica { device: DeviceId([device; 16]), incarnation: Incarnation([incarnation; 8]) }
}

/// Everything that waits, channel names joined by spaces.
fn drain(subscription: &Subscription) -> String {
    let mut cx = Context::from_waker(Waker::noop());
    let mut out = Vec::new();
    while let Poll::Ready(signal) = subscription.poll_signal(&mut cx) {
        match signal {
            Signal::Changed(channel) => out.push(channel.to_string()),
            Signal::End(end) => {
                out.push(format!("{end:?}"));
                break;
            }
        }
    }
    out.join(" ")
}

#[test]
fn a_change_reaches_its_channel_and_not_its_pusher() {
    let hub = hub();
    let other = hub.subscribe(listener(1, Some(1), "notes")).unwrap();
    let pusher = hub.subscribe(listener(2, Some(1), "notes")).unwrap();
    let all = hub.subscribe(listener(3, None, "*")).unwrap();
    hub.publish(ACCOUNT, "notes", Some(replica(2, 1)));
    hub.publish(ACCOUNT, "todo", Some(replica(2, 1)));
    hub.publish(AccountId([9; 16]), "notes", None);
    assert_eq!(drain(&other), "notes");
    assert_eq!(drain(&pusher), "");
    assert_eq!(drain(&all), "notes todo");
    // Another replica of the same device is somebody else.
    hub.publish(ACCOUNT, "notes", Some(replica(2, 2)));
    assert_eq!(drain(&pusher), "notes");
    // A stream that names no replica stands for the whole device.
    hub.publish(ACCOUNT, "notes", Some(replica(3, 7)));
    assert_eq!(drain(&all), "notes");
}

#[test]
fn a_reader_that_falls_behind_gets_one_signal_per_channel() {
    let hub = hub();
    let one = hub.subscribe(listener(1, None, "a")).unwrap();
    let all = hub.subscribe(listener(1, None, "*")).unwrap();
    for _ in 0..4 {
        hub.publish(ACCOUNT, "a", None);
    }
    assert_eq!(drain(&one), "a a a a");
    for _ in 0..1_000 {
        hub.publish(ACCOUNT, "a", None);
    }
    assert_eq!(one.stream.lock().pending.len(), 4, "bounded");
    drain(&one);
    for app in ["a", "b", "c", "d", "e", "a", "f", "b"] {
        hub.publish(ACCOUNT, app, None);
    }
    assert!(all.stream.lock().pending.len() <= 6);
    let told = drain(&all);
    for app in ["a", "b", "c", "d", "e", "f"] {
        assert!(told.split(' ').any(|channel| channel == app), "{app} is missing in {told}");
    }
}

#[test]
fn there_are_only_so_many_and_dropping_frees() {
    let hub = hub();
    let a = hub.subscribe(listener(1, None, "a")).unwrap();
    let _b = hub.subscribe(listener(1, None, "a")).unwrap();
    let error = hub.subscribe(listener(1, None, "a")).unwrap_err();
    assert_eq!(error, SubscribeError::AppLimit(2));
    let _c = hub.subscribe(listener(1, None, "b")).unwrap();
    let error = hub.subscribe(listener(1, None, "c")).unwrap_err();
    assert_eq!(error, SubscribeError::AccountLimit(3));
    drop(a);
    assert_eq!(hub.open_streams(), 2);
    hub.subscribe(listener(1, None, "c")).unwrap();
    assert_eq!(hub.open_streams(), 2);
}

#[test]
fn ends_come_first_and_stay() {
    let hub = hub();
    let gone = hub.subscribe(listener(1, None, "a")).unwrap();
    let stays = hub.subscribe(listener(2, None, "a")).unwrap();
    hub.publish(ACCOUNT, "a", None);
    hub.end_devices(ACCOUNT, |device| device == DeviceId([1; 16]), End::Revoked);
    hub.publish(ACCOUNT, "a", None);
    assert_eq!(drain(&gone), "Revoked");
    assert_eq!(drain(&gone), "Revoked");
    assert_eq!(drain(&stays), "a a");
    hub.close();
    assert_eq!(drain(&stays), "Closing");
    assert_eq!(hub.subscribe(listener(3, None, "a")).unwrap_err(), SubscribeError::Closing);
}
