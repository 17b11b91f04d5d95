//! Whom to trust: the system's authorities or one pinned by the person, verified by rustls.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use rustls_platform_verifier::Verifier;

use super::ConfigError;

/// Which certificate authorities vouch for the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those of the operating system.
    #[default]
    System,
    /// Only those in this PEM text, and none of the system's.
    Pinned(Vec<u8>),
}

impl Trust {
    /// Pins the authorities in a PEM file.
    ///
    /// # Errors
    /// [`ConfigError::AuthorityFile`] when it cannot be read, [`ConfigError::BadAuthority`] when
    /// there is no certificate in it.
    pub fn pinned_file(path: &Path) -> Result<Self, ConfigError> {
        let pem = std::fs::read(path)
            .map_err(|source| ConfigError::AuthorityFile { path: path.to_owned(), source })?;
        roots(&pem)?;
        Ok(Self::Pinned(pem))
    }

    /// The configuration for one set of protocols, in the order they are offered.
    pub(super) fn config(&self, alpn: &[&[u8]]) -> Result<ClientConfig, ConfigError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| ConfigError::Setup(error.to_string()))?;
        let mut config = match self {
            Self::System => {
                let verifier = Verifier::new(provider)
                    .map_err(|error| ConfigError::NoSystemTrust(error.to_string()))?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(verifier))
                    .with_no_client_auth()
            }
            Self::Pinned(pem) => builder.with_root_certificates(roots(pem)?).with_no_client_auth(),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Ok(config)
    }
}

/// A configuration that trusts nobody, for a server that is reached without TLS.
pub(super) fn no_trust() -> Result<ClientConfig, ConfigError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ConfigError::Setup(error.to_string()))?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn roots(pem: &[u8]) -> Result<RootCertStore, ConfigError> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|error| ConfigError::BadAuthority(error.to_string()))?;
        store.add(certificate).map_err(|error| ConfigError::BadAuthority(error.to_string()))?;
    }
    if store.is_empty() {
        return Err(ConfigError::BadAuthority("there is no certificate in it".to_owned()));
    }
    Ok(store)
}
