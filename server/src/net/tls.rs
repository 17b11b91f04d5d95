//! TLS by rustls: certificate and key from files, taken up anew when they change.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {reason}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The certificate or key cannot be used.
    #[error("{} and {} do not make a certificate: {reason}", .cert.display(), .key.display())]
    Unusable {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        reason: rustls::Error,
    },
    /// rustls does not take the configuration.
    #[error("TLS cannot be set up: {0}")]
    Config(#[from] rustls::Error),
}

/// The two files, and what was read from them last.
#[derive(Debug)]
pub struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<CertifiedKey>>,
    seen: RwLock<Option<[Seen; 2]>>,
}

/// When a file was changed, and how long it is.
type Seen = (SystemTime, u64);

impl TlsFiles {
    /// Reads both files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(cert: PathBuf, key: PathBuf) -> Result<Arc<Self>, TlsError> {
        let seen = seen(&cert, &key);
        let current = RwLock::new(read(&cert, &key)?);
        Ok(Arc::new(Self { cert, key, current, seen: RwLock::new(seen) }))
    }

    /// TLS 1.3 alone, HTTP/2 and HTTP/1.1.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Reads the files again if they changed. What cannot be used is logged and the old pair kept:
    /// a half-written renewal must not end the service.
    pub fn refresh(&self) {
        let now = seen(&self.cert, &self.key);
        {
            let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
            if *seen == now {
                return;
            }
            *seen = now;
        }
        match read(&self.cert, &self.key) {
            Ok(pair) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = pair;
                tracing::info!(cert = %self.cert.display(), "certificate taken up anew");
            }
            Err(error) => tracing::warn!(%error, "the certificate changed but the old one stays"),
        }
    }
}

impl ResolvesServerCert for TlsFiles {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn seen(cert: &PathBuf, key: &PathBuf) -> Option<[Seen; 2]> {
    let of = |path: &PathBuf| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.modified().ok()?, meta.len()))
    };
    Some([of(cert)?, of(key)?])
}

fn read(cert: &PathBuf, key: &PathBuf) -> Result<Arc<CertifiedKey>, TlsError> {
    let file = |path: &PathBuf, reason: String| TlsError::File { path: path.clone(), reason };
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| file(cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(file(cert, "there is no certificate in it".to_owned()));
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| file(key, error.to_string()))?;
    CertifiedKey::from_der(chain, private, &ring::default_provider())
        .map(Arc::new)
        .map_err(|reason| TlsError::Unusable { cert: cert.clone(), key: key.clone(), reason })
}
