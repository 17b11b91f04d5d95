//! A real nginx between devices and a server, as people run it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::apart::need;
use crate::process::Process;
use crate::wait::DEADLINE;

/// A running nginx.
#[derive(Debug)]
pub struct Nginx {
    _dir: TempDir,
    address: SocketAddr,
    _process: Process,
}

impl Nginx {
    /// Stands in front of a server, with lines of configuration of its own.
    ///
    /// # Panics
    /// nginx is missing or does not start.
    pub fn start(upstream: SocketAddr, lines: &str) -> Self {
        need("nginx", "nginx-light");
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().display();
        // A port that was free a moment ago may be somebody else's by now.
        for _ in 0..10 {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
            let address = free.expect("a free port");
            let config = format!(
                "daemon off; master_process off; pid {home}/pid; error_log stderr warn;
                 events {{ worker_connections 256; }}
                 http {{
                   access_log off;
                   client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
                   fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi;
                   scgi_temp_path {home}/scgi;
                   server {{
                     listen {address};
                     client_max_body_size 64m;
                     location / {{
                       proxy_pass http://{upstream};
                       proxy_http_version 1.1;
                       proxy_set_header Host $host;
                       proxy_set_header Connection \"\";
                       {lines}
                     }}
                   }}
                 }}"
            );
            let file = dir.path().join("nginx.conf");
            std::fs::write(&file, config).expect("a configuration");
            let mut command = Command::new("nginx");
            command.args(["-e", "stderr", "-p"]).arg(dir.path()).arg("-c").arg(&file);
            let mut process = Process::start("nginx", &mut command);
            let end = Instant::now() + DEADLINE;
            while process.runs() && Instant::now() < end {
                if TcpStream::connect(address).is_ok() && process.runs() {
                    return Self { _dir: dir, address, _process: process };
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let said = process.log();
            assert!(said.contains("Address already in use"), "nginx did not start:\n{said}");
        }
        panic!("nginx found no free port");
    }

    /// The URL that devices are told.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
