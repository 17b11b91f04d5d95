//! The vectors of the standard's rules, each whole, cut at every byte, and byte by byte.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::limits;

type Row = (&'static str, &'static str, &'static str);

struct Vector {
    no: u32,
    input: &'static [u8],
    /// type, data, last id
    events: &'static [Row],
    comments: usize,
    retry_ms: Option<u64>,
    last_id: &'static str,
}

const PLAIN: Vector =
    Vector { no: 0, input: b"", events: &[], comments: 0, retry_ms: None, last_id: "" };

const VECTORS: &[Vector] = &[
    Vector { no: 1, input: b"data: a\n\n", events: &[("message", "a", "")], ..PLAIN },
    Vector {
        no: 2,
        input: b"data:a\n\ndata:  a\n\n",
        events: &[("message", "a", ""), ("message", " a", "")],
        ..PLAIN
    },
    Vector { no: 3, input: b"event: changed\ndata:\n\n", events: &[("changed", "", "")], ..PLAIN },
    Vector {
        no: 4,
        input: b"event: changed\n\ndata: x\n\n",
        events: &[("message", "x", "")],
        ..PLAIN
    },
    Vector { no: 5, input: b"data: a\ndata: b\n\n", events: &[("message", "a\nb", "")], ..PLAIN },
    Vector { no: 6, input: b"data\n\n", events: &[("message", "", "")], ..PLAIN },
    Vector {
        no: 7,
        input: b": keepalive\n\ndata: x\n\n",
        events: &[("message", "x", "")],
        comments: 1,
        ..PLAIN
    },
    Vector {
        no: 8,
        input: b"data: A\r\ndata: B\r\ndata: C\r\n\r\n",
        events: &[("message", "A\nB\nC", "")],
        ..PLAIN
    },
    Vector {
        no: 9,
        input: b"data: A\rdata: B\r\r: k\n",
        events: &[("message", "A\nB", "")],
        comments: 1,
        ..PLAIN
    },
    Vector {
        no: 10,
        input: b"data: A\r\ndata: B\rdata: C\n\n",
        events: &[("message", "A\nB\nC", "")],
        ..PLAIN
    },
    Vector { no: 11, input: b"\xef\xbb\xbfdata: x\n\n", events: &[("message", "x", "")], ..PLAIN },
    Vector { no: 12, input: b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n", ..PLAIN },
    Vector {
        no: 13,
        input: b"id: 1\ndata: a\n\ndata: b\n\n",
        events: &[("message", "a", "1"), ("message", "b", "1")],
        last_id: "1",
        ..PLAIN
    },
    Vector {
        no: 14,
        input: b"id: 1\ndata: a\n\nid\ndata: b\n\n",
        events: &[("message", "a", "1"), ("message", "b", "")],
        ..PLAIN
    },
    Vector {
        no: 15,
        input: b"id: 123\nid: bad\x00id\ndata: hello\n\n",
        events: &[("message", "hello", "123")],
        last_id: "123",
        ..PLAIN
    },
    Vector {
        no: 16,
        input: b"id: 7\n\ndata: x\n\n",
        events: &[("message", "x", "7")],
        last_id: "7",
        ..PLAIN
    },
    Vector {
        no: 17,
        input: b"retry: 250\nretry: 1e3\nretry: -5\nretry:\nretry: 70 \n",
        retry_ms: Some(250),
        ..PLAIN
    },
    Vector {
        no: 18,
        input: b"data: \xe5\x8c\x97\xf0\x9f\x8c\x8d\n\n",
        events: &[("message", "\u{5317}\u{1f30d}", "")],
        ..PLAIN
    },
    Vector {
        no: 19,
        input: b"data: a\xffb\n\n",
        events: &[("message", "a\u{fffd}b", "")],
        ..PLAIN
    },
    Vector { no: 20, input: b"id: 9\ndata: a\n", ..PLAIN },
    Vector { no: 21, input: b"foo: bar\ndata: x\n\n", events: &[("message", "x", "")], ..PLAIN },
    Vector {
        no: 22,
        input: b"data: x\nevent: a\nevent: b\n\n",
        events: &[("b", "x", "")],
        ..PLAIN
    },
    Vector { no: 24, input: b"\n\n\ndata: x\n\n", events: &[("message", "x", "")], ..PLAIN },
    // Field reports beyond the table: a CR-only stream, an id of a block that never ended, a huge
    // delay, a value that is nothing but a BOM later on.
    Vector {
        no: 101,
        input: b"event: changed\rdata: x\r\r: k\n",
        events: &[("changed", "x", "")],
        comments: 1,
        ..PLAIN
    },
    Vector {
        no: 102,
        input: b"retry: 99999999999999999999\n\nevent: changed\ndata:\n\n",
        events: &[("changed", "", "")],
        retry_ms: Some(600_000),
        ..PLAIN
    },
    Vector {
        no: 103,
        input: b"data: x\n\n\xef\xbb\xbfdata: y\n\n",
        events: &[("message", "x", "")],
        ..PLAIN
    },
    Vector {
        no: 104,
        input: b"event: insert\ndata: {\"t\":\"\xe5\x8c\x97\xf0\x9f\x8c\x8d\"}\n\n",
        events: &[("insert", "{\"t\":\"\u{5317}\u{1f30d}\"}", "")],
        ..PLAIN
    },
    Vector {
        no: 105,
        input: b"data: a\xf0\x9f\ndata: b\n\n",
        events: &[("message", "a\u{fffd}\nb", "")],
        ..PLAIN
    },
];

fn read(pieces: &[&[u8]]) -> (Vec<Item>, Reader) {
    let mut reader = Reader::new();
    let mut items = Vec::new();
    for piece in pieces {
        reader.feed(piece);
        while let Some(item) = reader.next_item().unwrap() {
            items.push(item);
        }
    }
    (items, reader)
}

fn check(vector: &Vector, pieces: &[&[u8]], how: &str) {
    let (items, reader) = read(pieces);
    let events: Vec<Event> = items
        .iter()
        .filter_map(|item| if let Item::Event(event) = item { Some(event.clone()) } else { None })
        .collect();
    let wanted: Vec<Event> = vector
        .events
        .iter()
        .map(|(name, data, id)| Event {
            name: (*name).to_owned(),
            data: (*data).to_owned(),
            id: (*id).into(),
        })
        .collect();
    let no = vector.no;
    assert_eq!(events, wanted, "vector {no}, {how}");
    let comments = items.iter().filter(|item| **item == Item::Comment).count();
    assert_eq!(comments, vector.comments, "comments of vector {no}, {how}");
    assert_eq!(reader.retry(), vector.retry_ms.map(Duration::from_millis), "vector {no}, {how}");
    assert_eq!(reader.last_event_id(), vector.last_id, "vector {no}, {how}");
}

#[test]
fn vectors_hold_whole_and_for_every_cut() {
    for vector in VECTORS {
        check(vector, &[vector.input], "whole");
        for at in 0..=vector.input.len() {
            let (head, tail) = vector.input.split_at(at);
            check(vector, &[head, tail], &format!("cut at {at}"));
            check(vector, &[b"", head, b"", tail], &format!("cut at {at}, with empty reads"));
        }
        let bytes: Vec<&[u8]> = vector.input.chunks(1).collect();
        check(vector, &bytes, "byte by byte");
    }
}

#[test]
fn a_line_end_cut_between_two_reads_is_one_line_end() {
    let pieces: [&[u8]; 6] = [b"data: A\r\n", b"data: B\r", b"\n", b"data: C\r\n", b"\r", b"\n"];
    let (items, _) = read(&pieces);
    let [Item::Event(event)] = &items[..] else { panic!("{items:?}") };
    assert_eq!(event.data, "A\nB\nC");
    let (items, _) = read(&[b"event: changed\rdata: x\r\r"]);
    assert_eq!(items.len(), 1, "a lone CR ends the event without waiting for more");
}

#[test]
fn a_line_past_its_limit_is_refused_with_bounded_memory() {
    let mut reader = Reader::new();
    let piece = vec![b'x'; 64 << 10];
    let mut fed = 0;
    let error = loop {
        reader.feed(&piece);
        fed += piece.len();
        match reader.next_item() {
            Ok(item) => assert_eq!(item, None),
            Err(error) => break error,
        }
        assert!(fed <= limits::SSE_LINE + piece.len());
    };
    assert_eq!(error, SseError::LineTooLong { limit: limits::SSE_LINE });
    reader.feed(b"\n\ndata: x\n\n");
    assert_eq!(reader.next_item(), Err(error), "a failed reader stays failed");
}

#[test]
fn a_line_of_exactly_the_limit_is_read() {
    let line = [b"data: ".as_slice(), &vec![b'x'; limits::SSE_LINE - 6], b"\n\n"].concat();
    let (items, _) = read(&[&line]);
    assert!(matches!(&items[..], [Item::Event(event)] if event.data.len() == limits::SSE_LINE - 6));
}

#[test]
fn an_event_past_its_limit_is_refused() {
    let mut reader = Reader::new();
    let line = [b"data: ".as_slice(), &vec![b'x'; limits::SSE_LINE / 2], b"\n"].concat();
    let error = loop {
        reader.feed(&line);
        if let Err(error) = reader.next_item() {
            break error;
        }
    };
    assert_eq!(error, SseError::EventTooLarge { limit: limits::SSE_EVENT });
}

#[test]
fn replacement_characters_count_towards_the_event_limit() {
    let mut reader = Reader::with_limits(64, 16);
    reader.feed(b"data: \xff\xff\xff\xff\xff\n");
    assert_eq!(reader.next_item(), Ok(None), "15 bytes of U+FFFD fit");
    reader.feed(b"data: \xff\n");
    assert_eq!(reader.next_item(), Err(SseError::EventTooLarge { limit: 16 }));
}

#[test]
fn a_resuming_reader_keeps_its_id_until_the_stream_sets_another() {
    let mut reader = Reader::resuming("41");
    reader.feed(b"data: x\n\nid: 42\ndata: y\n\n");
    let ids: Vec<_> = std::iter::from_fn(|| reader.next_item().unwrap())
        .filter_map(|item| if let Item::Event(event) = item { Some(event.id) } else { None })
        .collect();
    assert_eq!(ids, ["41".into(), "42".into()]);
    assert_eq!(Reader::resuming("a\r\nb: c").last_event_id(), "");
}

#[test]
fn constant_frames_are_what_the_builder_writes() {
    assert_eq!(Frame::new().event(Some("changed"), None, "").unwrap().finish(), CHANGED);
    assert_eq!(Frame::new().comment("keepalive").finish(), KEEPALIVE);
    assert_eq!(Frame::new().comment("ping").finish(), PING);
}

#[test]
fn the_builder_refuses_what_would_break_a_frame() {
    for bad in ["a\nb", "a\rb", "a\0b"] {
        let named = Frame::new().event(Some(bad), None, "");
        assert!(matches!(named, Err(FrameError::BadName)), "{bad:?}");
        let with_id = Frame::new().event(None, Some(bad), "");
        assert!(matches!(with_id, Err(FrameError::BadId)), "{bad:?}");
    }
    assert!(matches!(Frame::new().event(None, None, "a\nb"), Err(FrameError::BadData)));
    assert!(matches!(Frame::new().event(None, None, "a\r"), Err(FrameError::BadData)));
    assert_eq!(Frame::new().comment("a\r\nb\0").finish(), b": a  b \n\n");
    let json = Frame::new().json(Some("update"), Some("5"), &serde_json::json!({"t": "a\nb"}));
    assert_eq!(json.unwrap().finish(), b"id: 5\nevent: update\ndata: {\"t\":\"a\\nb\"}\n\n");
}

#[test]
fn a_retry_line_shares_the_frame_of_the_event_after_it() {
    let frame = Frame::new()
        .retry(Duration::from_secs(1))
        .event(Some("connected"), Some("17"), "{}")
        .unwrap()
        .finish();
    assert_eq!(frame, b"retry: 1000\nid: 17\nevent: connected\ndata: {}\n\n");
}

/// Pieces of a stream that are likely to meet each other's edges.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"data".to_vec()),
        Just(b"event".to_vec()),
        Just(b"id".to_vec()),
        Just(b"retry".to_vec()),
        Just(b":".to_vec()),
        Just(b": ".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just(b"\xf0\x9f\x8c\x8d".to_vec()),
        Just(b"\xf0\x9f".to_vec()),
        Just(b"123".to_vec()),
        Just(b"\0".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..6),
    ]
}

fn drain_bounded(reader: &mut Reader, items: &mut Vec<Result<Item, SseError>>) {
    loop {
        match reader.next_item() {
            Ok(None) => return,
            Ok(Some(item)) => items.push(Ok(item)),
            Err(error) => {
                items.push(Err(error));
                return;
            }
        }
    }
}

proptest! {
    #[test]
    fn random_cuts_give_what_the_whole_gives(
        fragments in proptest::collection::vec(fragment(), 0..60),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let stream = fragments.concat();
        let mut whole = Vec::new();
        let mut reader = Reader::with_limits(40, 60);
        reader.feed(&stream);
        drain_bounded(&mut reader, &mut whole);

        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        at.push(stream.len());
        at.sort_unstable();
        let mut pieces = Vec::new();
        let mut reader = Reader::with_limits(40, 60);
        let mut from = 0;
        for to in at {
            reader.feed(&stream[from..to]);
            from = to;
            drain_bounded(&mut reader, &mut pieces);
            if pieces.last().is_some_and(Result::is_err) {
                break;
            }
        }
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn what_is_written_is_read_back(
        name in "[a-z]{1,12}",
        id in "[^\r\n\0]{0,20}",
        data in "[^\r\n]{0,60}",
    ) {
        let bytes = Frame::new().event(Some(&name), Some(&id), &data).unwrap().finish();
        let (items, _) = read(&[&bytes]);
        let wanted = Event { name, data, id: id.into() };
        prop_assert_eq!(items, vec![Item::Event(wanted)]);
    }
}
