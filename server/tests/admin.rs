//! The operator's verbs over the socket and straight on a store.

use std::os::unix::fs::PermissionsExt as _;

use tidings_server::admin::{CreateInvite, Operator, OperatorError};
use tidings_server::config_with;

use crate::fixture::{TestServer, within};

#[tokio::test]
async fn verbs_go_through_the_socket_or_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", dir.path().join("store").display());
    let values = [("store", store.as_str())];
    let config = config_with(&values).unwrap();
    // Nobody runs: the store itself.
    let operator = Operator::find(&config).await.unwrap();
    assert!(matches!(operator, Operator::Store(..)));
    let asked = CreateInvite { life_s: 3_600, note: "Ada".to_owned() };
    let made = operator.create_invite(asked.clone()).await.unwrap();
    let offline = operator.facts().await.unwrap();
    operator.close().await.unwrap();

    let server = TestServer::start(&values).await;
    let operator = Operator::find(&config).await.unwrap();
    assert!(matches!(operator, Operator::Running(_)));
    let socket = config.admin_socket.clone().unwrap();
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let running = operator.facts().await.unwrap();
    assert_eq!(running.server_id, server.server.server_id());
    assert_eq!((running.server_id, running.generation), (offline.server_id, offline.generation));
    assert_eq!(running.url, format!("http://{}", server.address()));
    let listed = operator.invites().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].note, "Ada");
    let second = operator.create_invite(asked).await.unwrap();
    assert_eq!(operator.revoke_invite(&listed[0].id).await.unwrap().revoked, 1);
    assert_eq!(operator.revoke_invite(&made.code).await.unwrap().revoked, 0);
    assert_eq!(operator.revoke_invite(&second.code).await.unwrap().revoked, 1);
    assert!(operator.invites().await.unwrap().is_empty());
    let refused = operator.create_invite(CreateInvite { life_s: 0, note: String::new() }).await;
    assert!(matches!(refused, Err(OperatorError::Refused(_))), "{refused:?}");
    let long = CreateInvite { life_s: 60, note: "x".repeat(201) };
    assert!(operator.create_invite(long).await.is_err());
    server.stop().await;
    assert!(!socket.exists());
}

#[tokio::test]
async fn what_stands_at_the_sockets_path_is_respected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let value = path.display().to_string();
    let start = || async {
        let config = config_with(&[("store", "memory:"), ("admin_socket", &value)]).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        tidings_server::Server::start(config, listener).await
    };
    std::fs::write(&path, "precious").unwrap();
    let error = start().await.unwrap_err().to_string();
    assert!(error.contains("not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(start().await.is_err());
    std::fs::remove_dir(&path).unwrap();
    // A socket that a killed server left.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = start().await.unwrap();
    let error = start().await.unwrap_err().to_string();
    assert!(error.contains("another server"), "{error}");
    within(server.stop()).await.unwrap();
}

/// A path that no socket's address holds.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_long_path_works_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let long = dir.path().join("d".repeat(120));
    let store = format!("redb:{}", long.display());
    let values = [("store", store.as_str())];
    let server = TestServer::start(&values).await;
    let operator = Operator::find(&config_with(&values).unwrap()).await.unwrap();
    assert!(matches!(operator, Operator::Running(_)));
    assert_eq!(operator.facts().await.unwrap().server_id, server.server.server_id());
    server.stop().await;
    assert!(!long.join("admin.sock").exists());
}

#[tokio::test]
async fn a_store_in_memory_has_no_verbs_of_its_own() {
    let config = config_with(&[("store", "memory:")]).unwrap();
    assert!(matches!(Operator::find(&config).await, Err(OperatorError::Memory)));
}
