//! The stream of nudges.

use std::time::Duration;

use tidings_wire::{
    Code, Incarnation,
    sse::{CHANGED, Frame, KEEPALIVE, RETRY_MAX},
    sync::SubscribeQuery,
};

use super::*;
use crate::{
    ErrorKind,
    testing::{answer, stream_head, within},
};

fn all() -> SubscribeQuery {
    SubscribeQuery { app_id: "*".to_owned(), incarnation: Some(Incarnation([2; 8])) }
}

fn one() -> SubscribeQuery {
    SubscribeQuery { app_id: "notes".to_owned(), incarnation: None }
}

fn changed(channel: &str) -> Notice {
    Notice::Changed {
        channel: if channel == "_account" {
            Channel::Account
        } else {
            Channel::App(channel.parse().unwrap())
        },
    }
}

/// Serves these bytes as a stream and collects its notices; keep-alives only by number.
async fn read(query: &SubscribeQuery, steps: Vec<Step>) -> (Vec<Notice>, usize, NotifyStream) {
    let steps = [vec![Step::Send(stream_head())], steps].concat();
    let server = Server::tcp(steps).await;
    let mut stream = within(client(&server).subscribe(query)).await.unwrap();
    let (mut notices, mut alive) = (Vec::new(), 0);
    while let Some(notice) = within(stream.next()).await {
        match notice {
            Notice::Alive => alive += 1,
            notice => notices.push(notice),
        }
    }
    (notices, alive, stream)
}

#[tokio::test]
async fn changes_name_their_channel() {
    let frames = b"event: changed\ndata: notes\n\nevent: changed\ndata: _account\n\n\
                   event: changed\ndata: NOT A CHANNEL\n\nevent: other\ndata: x\n\n";
    let (notices, _, stream) = read(&all(), send(frames)).await;
    assert_eq!(notices, [changed("notes"), changed("_account")]);
    assert_eq!(stream.end(), Some(&StreamEnd::Closed));

    let (notices, _, _) = read(&one(), send([CHANGED, CHANGED].concat())).await;
    assert_eq!(notices, [changed("notes"), changed("notes")], "one for each event");
}

#[tokio::test]
async fn every_byte_is_a_sign_of_life_and_no_cut_matters() {
    let frames = [KEEPALIVE, CHANGED].concat();
    for at in 0..=frames.len() {
        let (head, tail) = frames.split_at(at);
        let steps = vec![Step::Send(head.to_vec()), Step::Send(tail.to_vec())];
        let (notices, _, _) = read(&one(), steps).await;
        assert_eq!(notices, [changed("notes")], "cut at {at}");
    }
    let (notices, alive, _) = read(&one(), send(KEEPALIVE)).await;
    assert_eq!((notices.len(), alive), (0, 1));
}

#[tokio::test]
async fn only_plain_digits_are_a_delay() {
    let frames = b"retry: 250\n\nretry: 1e3\n\nretry: -5\n\nretry:\n\nretry: 70 \n\n\
                   event: changed\ndata:\n\n";
    let (notices, _, stream) = read(&one(), send(frames)).await;
    let delay = Duration::from_millis(250);
    assert_eq!(notices, [Notice::Retry(delay), changed("notes")]);
    assert_eq!(stream.retry(), Some(delay));

    let huge = b"retry: 99999999999999999999\n\nevent: changed\ndata:\n\n";
    let (notices, _, stream) = read(&one(), send(huge)).await;
    assert_eq!(notices, [Notice::Retry(RETRY_MAX), changed("notes")]);
    assert_eq!(stream.retry(), Some(RETRY_MAX));
}

#[tokio::test]
async fn the_last_words_of_a_stream_are_understood() {
    let reauth = |reason: &str| {
        let data = serde_json::json!({ "reason": reason });
        Frame::new().json(Some("reauth"), None, &data).unwrap().finish()
    };
    let closing =
        Frame::new().retry(Duration::from_secs(9)).event(Some("closing"), None, "").unwrap();
    let frames =
        [reauth("token_expired"), reauth("device_revoked"), reauth("moon"), closing.finish()];
    let (notices, _, _) = read(&all(), send(frames.concat())).await;
    let delay = Duration::from_secs(9);
    assert_eq!(
        notices,
        [
            Notice::Reauth { reason: ReauthReason::TokenExpired },
            Notice::Reauth { reason: ReauthReason::DeviceRevoked },
            Notice::Reauth { reason: ReauthReason::Other("moon".to_owned()) },
            Notice::Retry(delay),
            Notice::Closing { retry: Some(delay) },
        ]
    );
}

#[tokio::test]
async fn next_change_passes_over_everything_else() {
    let frames = [b"retry: 5\n: hello\n\n", KEEPALIVE, CHANGED, KEEPALIVE, CHANGED].concat();
    let server = Server::tcp(vec![Step::Send(stream_head()), Step::Send(frames)]).await;
    let mut stream = within(client(&server).subscribe(&one())).await.unwrap();
    let mut count = 0;
    while within(stream.next_change()).await.is_some() {
        count += 1;
    }
    assert_eq!(count, 2);
    assert_eq!(within(stream.next_change()).await, None, "it stays ended");
}

#[tokio::test]
async fn a_silent_stream_ends() {
    let server = Server::tcp(vec![Step::Send(stream_head()), Step::Hang]).await;
    let timeouts = Timeouts { silence: Duration::from_millis(50), ..Timeouts::default() };
    let mut stream = within(client_with(&server, timeouts).subscribe(&one())).await.unwrap();
    assert_eq!(within(stream.next()).await, None);
    assert_eq!(stream.end(), Some(&StreamEnd::Silent));
}

#[tokio::test]
async fn a_flood_without_line_ends_is_cut() {
    let server = Server::tcp(vec![Step::Send(stream_head()), Step::SendForever]).await;
    let mut stream = within(client(&server).subscribe(&one())).await.unwrap();
    while within(stream.next()).await.is_some() {}
    assert!(matches!(stream.end(), Some(StreamEnd::Damaged(_))), "{:?}", stream.end());
}

#[tokio::test]
async fn waiting_may_be_given_up_without_losing_a_change() {
    let mut steps = vec![Step::Send(stream_head())];
    steps.extend(CHANGED.iter().map(|&byte| Step::Send(vec![byte])));
    steps.push(Step::Hang);
    let server = Server::tcp(steps).await;
    let mut stream = within(client(&server).subscribe(&one())).await.unwrap();
    let found = within(async {
        loop {
            tokio::select! {
                biased;
                change = stream.next_change() => return change,
                () = tokio::task::yield_now() => {}
            }
        }
    });
    assert_eq!(found.await, Some(()));
}

#[tokio::test]
async fn subscribing_asks_for_a_stream_and_takes_nothing_else() {
    let mut server = Server::tcp(send(stream_head())).await;
    let client = client(&server);
    within(client.subscribe(&all())).await.unwrap();
    let request = server.request().await.to_ascii_lowercase();
    let line = "get /api/sync/subscribe?app_id=*&incarnation=0202020202020202 http/1.1";
    assert_eq!(request.lines().next().unwrap(), line);
    assert!(request.contains("accept: text/event-stream"), "{request}");

    let server = Server::tcp(send(answer("200 OK", "text/html", b"<html>"))).await;
    let error = within(super::client(&server).subscribe(&all())).await.unwrap_err();
    assert!(matches!(error, ClientError::NotTidings { .. }), "{error}");

    let body = br#"{"error":{"code":"stream.limit","message":"too many"}}"#;
    let server = Server::tcp(send(answer("429 Too Many Requests", "application/json", body))).await;
    let error = within(super::client(&server).subscribe(&all())).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), (Some(Code::StreamLimit), ErrorKind::Retry));
}
