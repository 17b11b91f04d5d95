//! O21: after SIGKILL the socket file stays, every restart fails with "address in use", and the
//! service manager loops.

use std::time::{Duration, Instant};

use serde_json::json;
use tidings_tests::{DEADLINE, Device, Process};
use tidings_wire::AppId;

#[tokio::test(flavor = "multi_thread")]
async fn o21_a_socket_left_by_a_killed_daemon_is_no_obstacle() {
    let app: AppId = "notes".parse().unwrap();
    let mut device = Device::start("killed").await;
    for round in 0..3 {
        device.put(&app, "t", &format!("r{round}"), &json!({ "round": round })).await;
        device.kill();
        assert!(device.socket().exists(), "a killed daemon leaves its socket");
        let started = Instant::now();
        device.resume().await;
        let took = started.elapsed();
        // The case's own limit, for a machine that is busy with other tests.
        assert!(took < Duration::from_secs(10), "it served after {took:?}");
        assert_eq!(device.rows(&app, "t").await.len(), round + 1, "what was acknowledged is here");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o21_what_is_no_socket_is_not_deleted() {
    let mut device = Device::new("occupied");
    std::fs::create_dir(device.home()).unwrap();
    let path = device.socket();
    for kind in ["a file", "a directory"] {
        match kind {
            "a file" => std::fs::write(&path, "somebody's").unwrap(),
            _ => std::fs::create_dir(&path).unwrap(),
        }
        let refused = Process::start(kind, &mut device.daemon_command());
        let (status, said) = refused.finished(DEADLINE);
        assert_eq!(status.code(), Some(78), "a restart cannot help: {said}");
        assert!(said.contains(path.to_str().unwrap()) && said.contains(kind), "{said}");
        match kind {
            "a file" => {
                assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's");
                std::fs::remove_file(&path).unwrap();
            }
            _ => std::fs::remove_dir(&path).unwrap(),
        }
    }
    device.resume().await;
}
