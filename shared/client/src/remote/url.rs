//! The address of a server, checked once.

use std::{fmt, net::IpAddr, str::FromStr};

use reqwest::Url;

use super::ConfigError;

/// Where a server is: `https://host[:port][/prefix]`, or plain `http` on this computer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl(Url);

impl ServerUrl {
    /// Whether the host is this computer itself, so that neither encryption nor a proxy is needed.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost"
            || bare.ends_with(".localhost")
            || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Whether calls are encrypted.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// The URL of a call. The path begins with a slash.
    pub(super) fn call(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        let prefix = self.0.path().trim_end_matches('/');
        url.set_path(&format!("{prefix}{path}"));
        url
    }
}

impl FromStr for ServerUrl {
    type Err = ConfigError;

    /// Reads a URL as a person types it: without a scheme it is `https`.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let text = text.trim();
        let bad = |why: &str| ConfigError::BadUrl { url: text.to_owned(), why: why.to_owned() };
        let full = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let url = Url::parse(&full).map_err(|error| bad(&error.to_string()))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(bad("the scheme must be https"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(bad("there is no host in it"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it may not hold a user name or password"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it may not hold `?` or `#`"));
        }
        let url = Self(url);
        if !url.is_https() && !url.is_loopback() {
            return Err(ConfigError::PlainHttp { url: text.to_owned() });
        }
        Ok(url)
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_are_taken() {
        for (text, shown) in [
            ("https://sync.example.org", "https://sync.example.org"),
            (" sync.example.org ", "https://sync.example.org"),
            ("sync.example.org:8443", "https://sync.example.org:8443"),
            ("https://example.org/tidings/", "https://example.org/tidings"),
            ("http://127.0.0.1:7840", "http://127.0.0.1:7840"),
            ("http://localhost:7840/", "http://localhost:7840"),
            ("http://[::1]:7840", "http://[::1]:7840"),
        ] {
            assert_eq!(text.parse::<ServerUrl>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn urls_that_are_refused() {
        for text in ["http://sync.example.org", "http://127.0.0.1.example.org", "http://10.0.0.1"] {
            let error = text.parse::<ServerUrl>().unwrap_err();
            assert!(matches!(error, ConfigError::PlainHttp { .. }), "{text}: {error}");
        }
        for text in [
            "",
            "ftp://example.org",
            "https://u:p@example.org",
            "https://example.org/?a=b",
            "https://",
        ] {
            let error = text.parse::<ServerUrl>().unwrap_err();
            assert!(matches!(error, ConfigError::BadUrl { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn calls_keep_the_prefix() {
        let url: ServerUrl = "https://example.org/tidings/".parse().unwrap();
        assert_eq!(url.call("/api/chain").as_str(), "https://example.org/tidings/api/chain");
        let url: ServerUrl = "https://example.org".parse().unwrap();
        assert_eq!(url.call("/healthz").as_str(), "https://example.org/healthz");
    }
}
