//! Nothing secret is ever logged, whatever the level.

use std::process::{Command, Stdio};

use http::Method;
use tidings_wire::account::DeleteAccountRequest;
use tidings_wire::auth::Action;

use crate::cli::Running;
use crate::fixture::session::{answer, b64, challenge, create, push_body};
use crate::fixture::tag;

#[tokio::test]
async fn logs_hold_no_token_code_nonce_signature_or_blob() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let store = format!("sled:{}", dir.path().join("store").display());
    let program = env!("CARGO_BIN_EXE_tidings-server");
    let mut command = Command::new(program);
    command.env_clear().env("HOME", dir.path()).stderr(std::fs::File::create(&log).unwrap());
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--store", &store]);
    command.args(["--set", "log=trace"]);
    let mut server = Running::logging(&mut command);
    let invite = Command::new(program)
        .env("HOME", dir.path())
        .args(["invite", "create", "--json", "--store", &store])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let invite: serde_json::Value = serde_json::from_slice(&invite.stdout).unwrap();
    let code = invite["code"].as_str().unwrap().to_owned();

    let client = server.client();
    let a = create(&client, Some(code.clone())).await;
    let mut book = a.book("notes");
    let blob = book.blob(&a.chain, tag(1), 500);
    let manifest = book.manifest(&a.chain);
    let body = push_body(std::slice::from_ref(&blob), &manifest);
    assert_eq!(a.attempt("notes", body.clone()).await, Some(200));
    let page = a.pull("notes", "").await;
    let mut wrong = body;
    wrong.truncate(100);
    assert_eq!(a.attempt("notes", wrong).await, Some(400));
    let c = challenge(&client, &a.device, a.account()).await;
    let signed = answer(&a.device, a.account(), &c, Action::DeleteAccount);
    let (nonce, signature) = (signed.nonce.clone(), signed.signature.clone());
    let delete = serde_json::to_vec(&DeleteAccountRequest { nonce, signature }).unwrap();
    let reply = a.send(Method::DELETE, "/api/accounts/self", &[], delete).await;
    assert_eq!(reply.status, 200);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));

    let log = std::fs::read(&log).unwrap();
    let found = |secret: &[u8]| log.windows(secret.len()).any(|window| window == secret);
    assert!(found(b"account created") && found(b"answered"), "the log is empty");
    let plain: String = code.chars().filter(char::is_ascii_alphanumeric).collect();
    for (what, secret) in [
        ("token", a.token.token.as_bytes()),
        ("signature of the token", a.token.token.rsplit('.').next().unwrap().as_bytes()),
        ("invite", code.as_bytes()),
        ("invite without dashes", plain.as_bytes()),
        ("nonce", signed.nonce.as_bytes()),
        ("signature", signed.signature.as_bytes()),
        ("blob", &blob[200..232]),
        ("blob as text", &b64(&blob).as_bytes()[300..340]),
        ("cursor", b64(&page.cursor[..]).as_bytes()),
        ("query", b"device_id="),
    ] {
        assert!(!found(secret), "the log holds a {what}");
    }
    assert!(!String::from_utf8_lossy(&log).contains(&format!("{:?}", &blob[200..210])));
}
