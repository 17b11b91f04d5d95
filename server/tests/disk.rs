//! A disk that fills up and a disk that breaks, under the real program.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidings_disk::Disk;
use tidings_wire::Code;
use tidings_wire::sync::PushResponse;

use crate::cli::{Running, run, text};
use crate::fixture::session::push_body;
use crate::fixture::{Session, tag};

/// A server in a mount namespace of its own, its store on a small disk.
fn on_small_disk(dir: &Path, engine: &str) -> Running {
    let apart = if rustix::process::geteuid().is_root() { "--mount" } else { "-rm" };
    assert!(
        Command::new("unshare").args([apart, "true"]).status().is_ok_and(|ok| ok.success()),
        "this test mounts a disk, which this system lets only root do: run it as root, as CI does"
    );
    let disk = disk(dir);
    std::fs::create_dir(&disk).unwrap();
    let script = "mount -t tmpfs -o size=64m tmpfs \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args([apart, "sh", "-c", script, "sh"]).arg(&disk);
    command.arg(env!("CARGO_BIN_EXE_tidings-server"));
    let store = format!("{engine}:{}", disk.join("store").display());
    Running::under(command, &["--store", &store, "--set", "registration=open"])
}

fn disk(dir: &Path) -> PathBuf {
    dir.join("disk")
}

/// A file on the server's disk, as it is seen from here.
fn filler(server: &Running, dir: &Path) -> PathBuf {
    let disk = disk(dir);
    let root = PathBuf::from(format!("/proc/{}/root", server.child.id()));
    root.join(disk.strip_prefix("/").unwrap()).join("filler")
}

async fn a_disk_that_fills_up(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = on_small_disk(dir.path(), engine);
    let client = server.client();
    let mut a = crate::fixture::session::create(&client, None).await;
    let b = a.link().await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 3).await;
    let filler = filler(&server, dir.path());
    // As full as the system lets it be.
    let _ = std::fs::write(&filler, vec![1; 64 << 20]);
    let mut refused = book.clone();
    let blob = refused.blob(&a.chain, tag(1), 1_000);
    let manifest = refused.manifest(&a.chain);
    let blobs = [blob];
    let reply = a.try_push("notes", &blobs, &manifest).await;
    assert_eq!((reply.code(), reply.status.as_u16()), (Code::StorageFull, 507));
    assert!(reply.headers.contains_key("retry-after"));
    assert_eq!(client.get("/readyz").await.code(), Code::StorageFull);
    assert_eq!(client.get("/healthz").await.status, 200);
    // Signing in and reading go on.
    let again = Session::sign_in(&client, b.device.clone(), a.chain.clone()).await;
    assert_eq!(again.pull_all("notes", "").await.len(), 3);
    std::fs::remove_file(&filler).unwrap();
    let pushed: PushResponse = a.try_push("notes", &blobs, &manifest).await.cbor();
    assert!(!pushed.already);
    assert_eq!(client.get("/readyz").await.status, 200);
    assert_eq!(again.pull_all("notes", "").await.len(), 4);
}

#[tokio::test]
async fn a_full_disk_stops_pushes_and_nothing_else_on_sled() {
    a_disk_that_fills_up("sled").await;
}

#[tokio::test]
async fn a_full_disk_stops_pushes_and_nothing_else_on_redb() {
    a_disk_that_fills_up("redb").await;
}

async fn a_sync_that_fails(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().canonicalize().unwrap();
    let data = home.join("store");
    let disk = Disk::under_dir(&data, &[]);
    let store = format!("{engine}:{}", data.display());
    let flags = ["--store", store.as_str(), "--set", "registration=open"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings-server"));
    disk.under(&mut command);
    let mut server = Running::under(command, &flags);
    let mut a = crate::fixture::session::create(&server.client(), None).await;
    let b = a.link().await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 3).await;
    disk.break_syncs(true);
    let mut next = book.clone();
    let blobs = [next.blob(&a.chain, tag(1), 1_000)];
    let manifest = next.manifest(&a.chain);
    // Nobody knows whether it is stored, so it is not acknowledged; the process ends and a person
    // or a service manager starts it again.
    let status = a.attempt("notes", push_body(&blobs, &manifest)).await;
    assert!(status.is_none_or(|status| status == 503), "{status:?}");
    assert_eq!(server.wait(), Some(1));
    disk.break_syncs(false);

    let server = Running::start(&home, &flags);
    let client = server.client();
    let again = Session::sign_in(&client, a.device.clone(), a.chain.clone()).await;
    let reader = Session::sign_in(&client, b.device.clone(), a.chain.clone()).await;
    let there = reader.pull_all("notes", "").await.len();
    assert!((3..=4).contains(&there), "{there}");
    let pushed: PushResponse = again.try_push("notes", &blobs, &manifest).await.cbor();
    assert_eq!(pushed.already, there == 4);
    assert_eq!(reader.pull_all("notes", "").await.len(), 4);
}

#[tokio::test]
async fn a_sync_that_fails_ends_the_process_on_sled() {
    a_sync_that_fails("sled").await;
}

#[tokio::test]
async fn a_sync_that_fails_ends_the_process_on_redb() {
    a_sync_that_fails("redb").await;
}

/// A damaged key in a page of redb's tree hides its row. Here it hides the key by which devices
/// know the server: it does not start as a stranger, it does not start.
#[test]
fn a_token_key_that_damage_hides_is_found_before_anybody_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("store");
    let store = format!("redb:{}", data.display());
    assert!(run(dir.path(), &["invite", "list", "--store", &store]).status.success());
    let path = data.join("data.redb");
    let mut bytes = std::fs::read(&path).unwrap();
    let key = b"token_key";
    // Older pages hold it, too.
    let places = bytes.windows(key.len()).enumerate().filter(|(_, window)| *window == key);
    let places: Vec<_> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at] = b'T';
    }
    std::fs::write(&path, &bytes).unwrap();
    let refused = run(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    assert_eq!(refused.status.code(), Some(78));
    let said = text(&refused.stderr);
    assert!(said.contains("damaged") && said.contains("data.redb"), "{said}");
    assert!(std::fs::read(&path).unwrap() == bytes, "the file was changed");
}
