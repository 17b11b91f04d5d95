//! The proxy of the environment. It is read when a client is made, so this test runs a part of
//! itself as another process with another environment.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
    task::JoinSet,
};

use super::{trust::Authority, *};
use crate::testing::{answer, within};

const CHILD: &str = "TIDINGS_TEST_PROXY_AUTHORITY";

#[tokio::test]
async fn https_goes_through_the_proxy_of_the_environment() {
    if let Ok(authority) = std::env::var(CHILD) {
        return child(&authority).await;
    }
    let authority = Authority::new();
    let body = answer("200 OK", "text/plain", b"ok");
    let server = Server::tls(authority.server("sync.tidings.test"), send(body)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(tunnel(listener, server.address.port()));

    let dir = tempfile::tempdir().unwrap();
    let pem = dir.path().join("ca.pem");
    std::fs::write(&pem, &authority.pem).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "remote::tests::proxy::https_goes_through_the_proxy_of_the_environment"])
        .env(CHILD, &pem)
        .env("HTTPS_PROXY", &proxy)
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .env_remove("https_proxy")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = within(child).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

async fn child(authority: &str) {
    let trust = Trust::pinned_file(authority.as_ref()).unwrap();
    let url = "https://sync.tidings.test".parse().unwrap();
    let client = SyncClient::new(&Config { trust, ..Config::new(url) }).unwrap();
    within(client.health()).await.unwrap();
}

/// Answers one CONNECT and joins it to the server.
async fn tunnel(listener: TcpListener, port: u16) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        stream.read_line(&mut head).await.unwrap();
    }
    assert!(head.starts_with("CONNECT sync.tidings.test:443 "), "{head}");
    let mut stream = stream.into_inner();
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
}
