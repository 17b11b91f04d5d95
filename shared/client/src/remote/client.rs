//! The client itself: two connection pools, an address, and perhaps a token.

use std::{fmt, sync::Arc};

use reqwest::redirect::Policy;

use super::{Config, ConfigError, ServerUrl, Timeouts, tls};

/// A client of one sync server. Cloning is cheap and shares the connections.
///
/// Calls that act for a device need a token: get one with
/// [`challenge`](Self::challenge) and [`token`](Self::token), then use the client that
/// [`with_token`](Self::with_token) returns. No call is repeated, no redirect is followed and
/// nothing is cached. All methods may be cancelled by dropping their future; what was asked may
/// have been done all the same.
#[derive(Clone)]
pub struct SyncClient {
    pub(super) url: ServerUrl,
    pub(super) timeouts: Timeouts,
    /// HTTP/2 where the server offers it.
    pub(super) calls: reqwest::Client,
    /// HTTP/1.1 only: a server can park such a stream outside of its HTTP stack.
    pub(super) streams: reqwest::Client,
    pub(super) token: Option<Arc<str>>,
}

impl SyncClient {
    /// A client without a token. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ConfigError`] when the trusted authorities cannot be used.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let calls = builder(config, &[b"h2", b"http/1.1"])?.read_timeout(config.timeouts.stall);
        let streams = builder(config, &[b"http/1.1"])?.http1_only().pool_max_idle_per_host(0);
        let build = |builder: reqwest::ClientBuilder| {
            builder.build().map_err(|error| ConfigError::Setup(super::error::innermost(&error)))
        };
        Ok(Self {
            url: config.url.clone(),
            timeouts: config.timeouts,
            calls: build(calls)?,
            streams: build(streams)?,
            token: None,
        })
    }

    /// The same client with a token for the calls that need one.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(Arc::from(token)), ..self.clone() }
    }

    /// The server's address.
    #[must_use]
    pub fn url(&self) -> &ServerUrl {
        &self.url
    }
}

impl fmt::Debug for SyncClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncClient")
            .field("url", &self.url.to_string())
            .field("signed_in", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

fn builder(config: &Config, alpn: &[&[u8]]) -> Result<reqwest::ClientBuilder, ConfigError> {
    let tls = if config.url.is_https() { config.trust.config(alpn)? } else { tls::no_trust()? };
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("tidings/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(config.timeouts.connect);
    // A proxy would look for the server on itself.
    Ok(if config.url.is_loopback() { builder.no_proxy() } else { builder })
}
