//! `tidings-server healthcheck`: asks a running server over its own port, or its admin socket
//! where it speaks TLS, whose certificate names another host than this one.

use clap::Args;
use serde_json::json;
use tidings_server::admin::Operator;
use tidings_server::config::Config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

use super::{Common, Fault, block_on, output};

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Seconds to wait for an answer.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
}

/// Asks.
pub(super) fn run(common: &Common, flags: &Flags) -> Result<(), Fault> {
    let config = common.resolve()?;
    block_on(async {
        let asking = async {
            if config.tls.is_none() { over_http(&config).await } else { over_socket(&config).await }
        };
        timeout(Duration::from_secs(flags.timeout), asking)
            .await
            .map_err(|_| Fault::Failed(format!("no answer within {} s", flags.timeout)))??;
        if common.json {
            output::json(&json!({ "ready": true }));
        } else {
            output::line("ready");
        }
        Ok(())
    })
}

async fn over_http(config: &Config) -> Result<(), Fault> {
    let failed = |error: std::io::Error| Fault::Failed(format!("{}: {error}", config.listen));
    let mut stream = TcpStream::connect(reachable(config)).await.map_err(failed)?;
    let request = "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(64 << 10).read_to_end(&mut answer).await.map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer);
    if answer.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    let line = answer.lines().next().unwrap_or("nothing");
    Err(Fault::Failed(format!("the server is not ready: {line}")))
}

async fn over_socket(config: &Config) -> Result<(), Fault> {
    let path = config.admin_socket.clone();
    let path = path.ok_or_else(|| Fault::Failed("there is no admin socket".to_owned()))?;
    Operator::Running(path).facts().await?;
    Ok(())
}

/// An address that the listening one is reached under from here.
fn reachable(config: &Config) -> std::net::SocketAddr {
    let mut address = config.listen;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}
