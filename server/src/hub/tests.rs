//! The hub over sinks that do as they are told.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard};

use mio::{Poll, Registry, Token};
use tidings_wire::Incarnation;

use super::streams::Streams;
use super::*;
use crate::clock::Millis;

const ACCOUNT: AccountId = AccountId([1; 16]);
const LATER: Millis = Millis(u64::MAX);

const SETTINGS: Settings = Settings {
    per_channel: 2,
    per_account: 3,
    pending: 4,
    keepalive: Duration::from_secs(3_600),
    closing_retry: Duration::from_secs(1),
};

/// A reader in memory, which may stop to take anything or go away.
#[derive(Clone, Default)]
struct Reader(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    heard: String,
    stalled: bool,
    gone: bool,
    held: VecDeque<Bytes>,
    dropped: bool,
}

impl Reader {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// What it heard since it was asked last.
    fn heard(&self) -> String {
        let heard = std::mem::take(&mut self.lock().heard);
        let names = [("event: changed\ndata:", "changed"), ("event: reauth\ndata:", "reauth")];
        let short = names.iter().fold(heard, |text, (long, short)| text.replace(long, short));
        short.trim_end().replace("\n\n", ", ")
    }
}

struct Wire(Reader);

impl Sink for Wire {
    fn send(&mut self, frame: &Bytes) -> io::Result<Sent> {
        let mut state = self.0.lock();
        assert!(state.held.is_empty(), "sent while something was held");
        state.held.push_back(frame.clone());
        drop(state);
        self.flush()
    }

    fn flush(&mut self) -> io::Result<Sent> {
        let mut state = self.0.lock();
        if state.gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        while !state.stalled {
            let Some(frame) = state.held.pop_front() else { return Ok(Sent::Whole) };
            state.heard.push_str(std::str::from_utf8(&frame).unwrap());
        }
        Ok(Sent::Held)
    }

    fn peer(&mut self) -> io::Result<()> {
        if self.0.lock().gone { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn arm(&mut self, _: &Registry, _: Token, _: Wake) -> io::Result<()> {
        Ok(())
    }

    fn bye(&mut self, last: &Bytes) {
        if self.0.lock().held.is_empty() {
            let _ = self.send(last);
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.0.lock().dropped = true;
    }
}

fn listener(device: u8, incarnation: Option<u8>, channel: &str) -> Listener {
    Listener {
        account: ACCOUNT,
        device: DeviceId([device; 16]),
        incarnation: incarnation.map(|byte| Incarnation([byte; 8])),
        channel: channel.into(),
        expires: LATER,
    }
}

fn replica(device: u8, incarnation: u8) -> Replica {
    Replica { device: DeviceId([device; 16]), incarnation: Incarnation([incarnation; 8]) }
}

fn park(hub: &Hub, listener: Listener) -> Reader {
    let reader = Reader::default();
    hub.subscribe(listener)
        .unwrap()
        .park(Outlet::Boxed(Box::new(Wire(reader.clone()))), &Bytes::new());
    reader
}

/// Streams without a thread, for steps at times of the test's own.
struct Table {
    streams: Streams,
    _poll: Poll,
}

impl Table {
    fn new() -> Self {
        let poll = Poll::new().unwrap();
        let registry = poll.registry().try_clone().unwrap();
        Self { streams: Streams::new(SETTINGS, registry), _poll: poll }
    }

    fn park(&mut self, listener: Listener) -> (usize, Reader) {
        let reader = Reader::default();
        let key = self.streams.open(listener).unwrap();
        self.streams.attach(key, Outlet::Boxed(Box::new(Wire(reader.clone()))), &Bytes::new());
        (key.index, reader)
    }

    fn publish(&mut self, channel: &str) {
        self.streams.publish(ACCOUNT, &channel.into(), None);
    }
}

#[test]
fn a_change_reaches_its_channel_and_not_its_pusher() {
    let hub = Hub::start(Settings { per_account: 9, ..SETTINGS }).unwrap();
    let other = park(&hub, listener(1, Some(1), "notes"));
    let pusher = park(&hub, listener(2, Some(1), "notes"));
    let all = park(&hub, listener(3, None, "*"));
    hub.publish(ACCOUNT, "notes", Some(replica(2, 1)));
    hub.publish(ACCOUNT, "todo", Some(replica(2, 1)));
    hub.publish(AccountId([9; 16]), "notes", None);
    assert_eq!(other.heard(), "changed");
    assert_eq!(pusher.heard(), "");
    assert_eq!(all.heard(), "changed notes, changed todo");
    // Another replica of the same device is somebody else.
    hub.publish(ACCOUNT, "notes", Some(replica(2, 2)));
    assert_eq!(pusher.heard(), "changed");
    // A stream that names no replica stands for the whole device.
    all.heard();
    hub.publish(ACCOUNT, "notes", Some(replica(3, 7)));
    assert_eq!(all.heard(), "");
}

#[test]
fn nothing_is_missed_before_the_socket_is_there() {
    let hub = Hub::start(SETTINGS).unwrap();
    let subscription = hub.subscribe(listener(1, None, "*")).unwrap();
    for app in ["a", "b", "a"] {
        hub.publish(ACCOUNT, app, None);
    }
    let reader = Reader::default();
    subscription
        .park(Outlet::Boxed(Box::new(Wire(reader.clone()))), &Bytes::from_static(b": hello\n\n"));
    assert_eq!(reader.heard(), ": hello, changed a, changed b");
    // Nor is an end.
    let subscription = hub.subscribe(listener(1, None, "a")).unwrap();
    hub.end_devices(ACCOUNT, |_| true, End::Revoked);
    assert!(reader.lock().dropped);
    let late = Reader::default();
    subscription
        .park(Outlet::Boxed(Box::new(Wire(late.clone()))), &Bytes::from_static(b": hello\n\n"));
    assert_eq!(late.heard(), ": hello, reauth {\"reason\":\"device_revoked\"}");
    assert!(late.lock().dropped);
    assert_eq!(hub.open_streams(), 0);
}

#[test]
fn a_reader_that_stalls_gets_one_word_per_channel_afterwards() {
    let mut table = Table::new();
    let (one, slow) = table.park(listener(1, None, "a"));
    let (all, slow_all) = table.park(listener(1, None, "*"));
    let (_, quick) = table.park(listener(2, None, "a"));
    slow.lock().stalled = true;
    slow_all.lock().stalled = true;
    for _ in 0..1_000 {
        table.publish("a");
        table.publish("b");
    }
    assert_eq!(slow.lock().held.len(), 1, "bounded");
    assert_eq!(quick.heard().matches("changed").count(), 1_000);
    for reader in [&slow, &slow_all] {
        reader.lock().stalled = false;
    }
    table.streams.look(one);
    table.streams.look(all);
    assert_eq!(slow.heard(), "changed, changed");
    // The first was in the sink already.
    assert_eq!(slow_all.heard(), "changed a, changed b, changed a");
    table.publish("a");
    assert_eq!(slow.heard(), "changed");
}

#[test]
fn a_stalled_reader_is_cut_at_its_second_missed_keepalive() {
    let mut table = Table::new();
    let (index, slow) = table.park(listener(1, None, "a"));
    let (other, fine) = table.park(listener(2, None, "a"));
    slow.lock().stalled = true;
    table.publish("a");
    table.streams.keep_alive(index);
    assert!(!slow.lock().dropped);
    // One that takes bytes again has missed nothing.
    slow.lock().stalled = false;
    table.streams.look(index);
    slow.lock().stalled = true;
    table.publish("a");
    table.streams.keep_alive(index);
    assert!(!slow.lock().dropped);
    table.streams.keep_alive(index);
    assert!(slow.lock().dropped);
    table.streams.keep_alive(other);
    assert_eq!(fine.heard(), "changed, changed, : keepalive");
    assert_eq!(table.streams.len(), 1);
}

#[test]
fn there_are_only_so_many_and_leaving_makes_room() {
    let hub = Hub::start(SETTINGS).unwrap();
    let a = hub.subscribe(listener(1, None, "a")).unwrap();
    let b = park(&hub, listener(1, None, "a"));
    let error = |listener| hub.subscribe(listener).err();
    assert_eq!(error(listener(1, None, "a")), Some(SubscribeError::AppLimit(2)));
    let _c = park(&hub, listener(1, None, "b"));
    assert_eq!(error(listener(1, None, "c")), Some(SubscribeError::AccountLimit(3)));
    drop(a);
    assert_eq!(hub.open_streams(), 2);
    b.lock().gone = true;
    hub.publish(ACCOUNT, "a", None);
    assert!(b.lock().dropped);
    assert_eq!(hub.open_streams(), 1);
    let _d = park(&hub, listener(1, None, "c"));
    let _e = park(&hub, listener(1, None, "c"));
    assert_eq!(error(listener(1, None, "c")), Some(SubscribeError::AccountLimit(3)));
}

/// Slots and places in lists are taken anew all the time; whoever is there hears what is his.
#[test]
fn those_who_come_and_go_do_not_confuse_the_lists() {
    let mut table = Table::new();
    let mut readers: VecDeque<_> = VecDeque::new();
    let settings = |n: u8| listener(n, None, if n.is_multiple_of(2) { "a" } else { "b" });
    for round in 0..60_u8 {
        if readers.len() == 3 {
            let at = usize::from(round) % 3;
            let (index, gone, _): (usize, Reader, u8) = readers.remove(at).unwrap();
            gone.lock().gone = true;
            table.streams.look(index);
            assert!(gone.lock().dropped);
        }
        let of = |parity: u8| readers.iter().filter(|(_, _, n)| n % 2 == parity).count();
        let n = if of(round % 2) < 2 { round } else { round + 1 };
        let (index, reader) = table.park(settings(n));
        readers.push_back((index, reader, n));
        table.publish(if round % 3 == 0 { "a" } else { "b" });
        for (_, reader, n) in &readers {
            let told = n % 2 == u8::from(round % 3 != 0);
            assert_eq!(reader.heard() == "changed", told, "round {round}, reader {n}");
        }
        assert_eq!(table.streams.len(), readers.len());
    }
}

#[test]
fn ends_come_at_once_and_stay() {
    let hub = Hub::start(SETTINGS).unwrap();
    let gone = park(&hub, listener(1, None, "a"));
    let stays = park(&hub, listener(2, None, "a"));
    hub.publish(ACCOUNT, "a", None);
    hub.end_devices(ACCOUNT, |device| device == DeviceId([1; 16]), End::Revoked);
    hub.publish(ACCOUNT, "a", None);
    assert_eq!(gone.heard(), "changed, reauth {\"reason\":\"device_revoked\"}");
    assert!(gone.lock().dropped);
    assert_eq!(stays.heard(), "changed, changed");
    hub.close();
    assert!(stays.heard().ends_with("event: closing\ndata: {}"));
    assert!(stays.lock().dropped);
    assert_eq!(hub.subscribe(listener(3, None, "a")).err(), Some(SubscribeError::Closing));
}

#[test]
fn tokens_end_streams_in_their_order() {
    let mut table = Table::new();
    let until =
        |device, expires| Listener { expires: Millis(expires), ..listener(device, None, "a") };
    let (_, late) = table.park(until(1, 3_000));
    let (_, early) = table.park(until(2, 1_000));
    assert_eq!(table.streams.first_expiry(), Some(Millis(1_000)));
    table.streams.expire(Millis(999));
    assert_eq!(table.streams.len(), 2);
    table.streams.expire(Millis(1_000));
    assert_eq!(early.heard(), "reauth {\"reason\":\"token_expired\"}");
    assert!(!late.lock().dropped);
    assert_eq!(table.streams.first_expiry(), Some(Millis(3_000)));
    // One whose socket is not there yet is told when it is.
    let key = table.streams.open(until(3, 3_000)).unwrap();
    table.streams.expire(Millis(3_000));
    assert!(late.lock().dropped);
    let reader = Reader::default();
    table.streams.attach(key, Outlet::Boxed(Box::new(Wire(reader.clone()))), &Bytes::new());
    assert_eq!(reader.heard(), "reauth {\"reason\":\"token_expired\"}");
    assert_eq!((table.streams.len(), table.streams.first_expiry()), (0, None));
}
