//! TLS: a pinned authority is trusted, and nobody else.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use super::*;
use crate::{
    ErrorKind,
    testing::{answer, within},
};

pub(super) struct Authority {
    pub(super) pem: Vec<u8>,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { pem: issuer.pem().into_bytes(), issuer }
    }

    /// A server's configuration with a certificate for one name or address.
    pub(super) fn server(&self, name: &str) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn apps() -> Vec<Step> {
    let body = format!(
        r#"{{"generation":"{}","apps":[],"chain":{{"index":0,"hash":"{}"}}}}"#,
        "0".repeat(16),
        "0".repeat(64)
    );
    send(answer("200 OK", "application/json", body.as_bytes()))
}

async fn call(server: &Server, trust: Trust) -> Result<(), ClientError> {
    let url = format!("https://127.0.0.1:{}", server.address.port()).parse().unwrap();
    let client = SyncClient::new(&Config { trust, ..Config::new(url) }).unwrap();
    within(client.with_token("T0KEN").apps()).await.map(|_| ())
}

#[tokio::test]
async fn only_the_pinned_authority_vouches() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = Server::tls(ours.server("127.0.0.1"), apps()).await;
    call(&server, Trust::Pinned(ours.pem.clone())).await.unwrap();
    let error = call(&server, Trust::Pinned(theirs.pem)).await.unwrap_err();
    assert!(matches!(error, ClientError::Certificate(_)), "{error}");
    assert_eq!(error.kind(), ErrorKind::Retry);

    let other = Server::tls(ours.server("10.1.2.3"), apps()).await;
    let error = call(&other, Trust::Pinned(ours.pem)).await.unwrap_err();
    assert!(matches!(error, ClientError::Certificate(_)), "another name: {error}");
}

#[test]
fn an_authority_file_is_checked_when_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.pem");
    let error = Trust::pinned_file(&path).unwrap_err();
    assert!(error.to_string().contains("ca.pem"), "{error}");
    for wrong in ["", "not PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&path, wrong).unwrap();
        let error = Trust::pinned_file(&path).unwrap_err();
        assert!(matches!(error, ConfigError::BadAuthority(_)), "{wrong:?}: {error}");
    }
    std::fs::write(&path, Authority::new().pem).unwrap();
    Trust::pinned_file(&path).unwrap();
}
