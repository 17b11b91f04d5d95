//! The pairing mailbox over HTTP.

use std::time::Duration;

use http::Method;
use tidings_wire::Code;
use tidings_wire::pairing::{OpenMailboxResponse, PutMailboxRequest, ReadMailboxResponse};

use crate::fixture::session::b64;
use crate::fixture::{Client, Reply, TestServer};

async fn put(client: &Client, path: &str, index: u32, message: &[u8]) -> Reply {
    let request = PutMailboxRequest { index, message: b64(message) };
    let body = serde_json::to_vec(&request).unwrap();
    client.send(Method::PUT, path, &[("content-type", "application/json")], body).await
}

#[tokio::test]
async fn two_sides_exchange_messages_without_a_token() {
    let server = TestServer::start(&[]).await;
    let client = &server.client;
    let open: OpenMailboxResponse = client.post_json("/api/pair", &()).await.json();
    assert_eq!(open.server_id, server.server.server_id());
    let (new, old) =
        (format!("/api/pair/{}/new", open.nameplate), format!("/api/pair/{}/old", open.nameplate));
    assert_eq!(put(client, &new, 0, b"hello").await.status, 200);
    assert_eq!(put(client, &new, 0, b"hello").await.status, 200);
    assert_eq!(put(client, &new, 0, b"other").await.code(), Code::MailboxTaken);
    assert_eq!(put(client, &new, 5, b"far").await.code(), Code::InvalidField);
    let read: ReadMailboxResponse = client.get(&new).await.json();
    assert_eq!(read.messages, [b64(b"hello")]);
    let none: ReadMailboxResponse = client.get(&old).await.json();
    assert!(none.messages.is_empty());
    let waits = format!("{old}?from=0&wait=30");
    let (read, _) = tokio::join!(client.get(&waits), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        put(client, &old, 0, b"answer").await
    });
    assert_eq!(read.json::<ReadMailboxResponse>().messages, [b64(b"answer")]);
}

#[tokio::test]
async fn mailboxes_end_and_are_bounded() {
    let server = TestServer::start(&[
        ("pairing.life", "3s"),
        ("pairing.mailboxes", "2"),
        ("pairing.wait", "200ms"),
    ])
    .await;
    let client = &server.client;
    assert_eq!(client.get("/api/pair/1234/new").await.code(), Code::MailboxNotFound);
    assert_eq!(client.get("/api/pair/x/new").await.code(), Code::MailboxNotFound);
    let open: OpenMailboxResponse = client.post_json("/api/pair", &()).await.json();
    assert_eq!(
        client.get(&format!("/api/pair/{}/up", open.nameplate)).await.code(),
        Code::InvalidField
    );
    let path = format!("/api/pair/{}/new", open.nameplate);
    assert_eq!(put(client, &path, 0, &vec![1; 64 << 10]).await.status, 200);
    assert_eq!(put(client, &path, 1, &vec![1; (64 << 10) + 1]).await.code(), Code::InvalidField);
    // A read waits no longer than the server lets it.
    let read: ReadMailboxResponse = client.get(&format!("{path}?from=1&wait=30")).await.json();
    assert!(read.messages.is_empty());
    let _: OpenMailboxResponse = client.post_json("/api/pair", &()).await.json();
    assert_eq!(client.post_json("/api/pair", &()).await.code(), Code::Unavailable);
    let gone = async {
        while client.get(&path).await.status == 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    crate::fixture::within(gone).await;
    assert_eq!(client.get(&path).await.code(), Code::MailboxNotFound);
}
