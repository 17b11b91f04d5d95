//! A relay between the devices and the server that records every byte before TLS.
//!
//! It ends the devices' TLS with a certificate of the same authority, writes what it reads to one
//! file per connection and direction, and opens TLS of its own to the server. It speaks HTTP/1.1
//! only: HTTP/2 would compress header fields, and a search could not see through that.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::certificate::{Authority, Certificate};

/// A running relay; dropping it ends all its connections.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Relay {
    /// Listens on a free port of this machine and relays to `server`, recording into a directory.
    ///
    /// # Errors
    /// The directory cannot be made, or the certificates cannot be used.
    pub async fn start(
        authority: &Authority,
        certificate: &Certificate,
        server: SocketAddr,
        recording: &Path,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(recording)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let ends = Arc::new(Ends {
            acceptor: TlsAcceptor::from(Arc::new(server_config(certificate)?)),
            connector: TlsConnector::from(Arc::new(client_config(&authority.pem())?)),
            server,
            recording: recording.to_owned(),
            connections: AtomicU64::new(0),
        });
        #[expect(clippy::disallowed_methods, reason = "the relay owns this task and aborts it")]
        let task = tokio::spawn(accept(listener, ends));
        Ok(Self { address, task })
    }

    /// Where devices connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Ends {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    server: SocketAddr,
    recording: PathBuf,
    connections: AtomicU64,
}

async fn accept(listener: TcpListener, ends: Arc<Ends>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            // A connection that breaks is the devices' business: they dial again.
            Ok((stream, _)) => {
                let ends = Arc::clone(&ends);
                connections.spawn(async move { ends.relay(stream).await });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

impl Ends {
    async fn relay(&self, device: TcpStream) -> io::Result<()> {
        device.set_nodelay(true)?;
        let server = TcpStream::connect(self.server).await?;
        server.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let device = self.acceptor.accept(device).await?;
        let server = self.connector.connect(name, server).await?;
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let file =
            |direction| File::create(self.recording.join(format!("{number:05}-{direction}")));
        let (from_device, to_device) = tokio::io::split(device);
        let (from_server, to_server) = tokio::io::split(server);
        let up = copy(from_device, to_server, file("to-server")?);
        let down = copy(from_server, to_device, file("to-device")?);
        tokio::try_join!(up, down).map(|_| ())
    }
}

/// Copies until the end, recording each piece before it is passed on.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut recording: File,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) => break,
            Ok(read) => read,
            // A peer that closes without TLS's own goodbye has still said all it had to say.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        };
        let piece = buffer.get(..read).unwrap_or_default();
        recording.write_all(piece)?;
        to.write_all(piece).await?;
        to.flush().await?;
    }
    to.shutdown().await
}

fn server_config(certificate: &Certificate) -> io::Result<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(certificate.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(io::Error::other)?;
    let key =
        PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).map_err(io::Error::other)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn client_config(authority: &str) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
