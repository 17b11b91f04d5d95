//! Resolved configuration: every value typed, in range and consistent with the others.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use directories::BaseDirs;

use super::keys::Key;
use super::layers::{ConfigError, Layers, Origin};
use super::value::{Network, Rate, StoreLocation, Value};

/// Everything that the server needs to know to run.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The URL that devices use, if the operator named one.
    pub public_url: Option<String>,
    /// Where everything is kept.
    pub store: StoreLocation,
    /// Who may create accounts.
    pub registration: Registration,
    /// Whether a proxy in front speaks TLS.
    pub behind_proxy: bool,
    /// Proxies whose word on the client's address counts.
    pub trusted_proxies: Vec<Network>,
    /// The admin socket, where there is one.
    pub admin_socket: Option<PathBuf>,
    /// The log filter.
    pub log: String,
    /// Whether log lines are JSON.
    pub log_json: bool,
    /// TLS, if the server speaks it itself.
    pub tls: Option<Tls>,
    /// Signing in.
    pub auth: Auth,
    /// Pairing mailboxes.
    pub pairing: Pairing,
    /// Streams.
    pub streams: Streams,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Sizes and counts.
    pub limits: Limits,
    /// What an account may keep.
    pub quota: Quota,
    /// Rates.
    pub rates: Rates,
}

/// Who may create an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// Whoever has a one-use code.
    Invite,
    /// Anybody.
    Open,
}

/// Certificate and key.
#[derive(Debug, Clone)]
pub struct Tls {
    /// PEM file of the chain.
    pub cert: PathBuf,
    /// PEM file of the key.
    pub key: PathBuf,
    /// How often to look for changed files.
    pub reload: Duration,
}

/// Signing in.
#[derive(Debug, Clone)]
pub struct Auth {
    /// Life of a token.
    pub token_life: Duration,
    /// Life of a challenge.
    pub challenge_life: Duration,
    /// Most open challenges.
    pub challenges: usize,
}

/// Pairing mailboxes.
#[derive(Debug, Clone)]
pub struct Pairing {
    /// Life of a mailbox.
    pub life: Duration,
    /// Most mailboxes.
    pub mailboxes: usize,
    /// Longest wait of a read.
    pub wait: Duration,
}

/// Streams of `changed`.
#[derive(Debug, Clone)]
pub struct Streams {
    /// Time between keep-alive comments.
    pub keepalive: Duration,
    /// Least value of the first `retry:` line; the most is twice this.
    pub retry: Duration,
    /// Most value of the last one.
    pub closing_retry: Duration,
    /// Most signals kept for a slow reader.
    pub pending: usize,
    /// Most streams of one (account, app).
    pub per_app: usize,
    /// Most streams of one account.
    pub per_account: usize,
}

/// How long things may take.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// A TLS handshake.
    pub tls_handshake: Duration,
    /// The head of a request.
    pub header: Duration,
    /// A pause within a body.
    pub body_idle: Duration,
    /// A whole body.
    pub body: Duration,
    /// A connection without a request.
    pub idle: Duration,
    /// A write that takes no byte.
    pub write_stall: Duration,
    /// Requests in progress at shutdown.
    pub drain: Duration,
}

/// Sizes and counts.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most connections.
    pub connections: usize,
    /// Most connections of one address.
    pub connections_per_address: usize,
    /// Most bytes of request bodies in memory.
    pub inflight_bytes: u64,
    /// Pulls of one account at a time.
    pub pulls_per_account: usize,
    /// Largest push, in bytes.
    pub push_request: usize,
    /// Most blobs in a push.
    pub push_blobs: usize,
    /// Largest JSON request, in bytes.
    pub json_request: usize,
    /// Most blobs in a page.
    pub page_blobs: usize,
    /// Target size of a page, in bytes.
    pub page_bytes: usize,
    /// Most active devices of an account.
    pub devices: usize,
    /// Most entries of a chain.
    pub chain_entries: u64,
    /// Most apps of an account.
    pub apps: u64,
    /// Most lanes of one app of an account.
    pub lanes: u64,
    /// Most replicas of one app of an account.
    pub replicas: u64,
    /// Most bytes of a chain and its key ring.
    pub chain_bytes: u64,
}

/// What an account may keep.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    /// Most bytes.
    pub bytes: Option<u64>,
    /// Most blobs.
    pub blobs: Option<u64>,
}

/// How often things may happen; `None` is any number of times.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// Requests per address.
    pub address: Option<Rate>,
    /// Requests per account.
    pub account: Option<Rate>,
    /// Sign-ins per address.
    pub sign_in: Option<Rate>,
    /// Accounts created per address.
    pub create_account: Option<Rate>,
    /// Chain reads and appends per address.
    pub chain: Option<Rate>,
    /// Mailbox reads and writes per address.
    pub pairing: Option<Rate>,
    /// New mailboxes per address.
    pub open_mailbox: Option<Rate>,
}

impl Config {
    /// Resolves raw values.
    ///
    /// # Errors
    /// [`ConfigError`]: a value out of form or range, or values that do not go together.
    pub fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        // First each value by itself, so that `config check` speaks of the key that is wrong.
        for key in Key::ALL {
            parsed(layers, *key)?;
        }
        let store = match parsed(layers, Key::Store)? {
            Some((Value::Store(store), _)) => store,
            _ => default_store()?,
        };
        let admin_socket = path(layers, Key::AdminSocket)?
            .or_else(|| store.dir().map(|dir| dir.join("admin.sock")));
        let tls = match (path(layers, Key::TlsCert)?, path(layers, Key::TlsKey)?) {
            (Some(cert), Some(key)) => {
                Some(Tls { cert, key, reload: duration(layers, Key::TlsReload)? })
            }
            (None, None) => None,
            (Some(_), None) => return Err(conflict("tls.cert needs tls.key beside it")),
            (None, Some(_)) => return Err(conflict("tls.key needs tls.cert beside it")),
        };
        let trusted_proxies = match parsed(layers, Key::TrustedProxies)? {
            Some((Value::Networks(networks), _)) => networks,
            _ => Vec::new(),
        };
        let behind_proxy = boolean(layers, Key::BehindProxy)? || !trusted_proxies.is_empty();
        let listen = match parsed(layers, Key::Listen)? {
            Some((Value::Address(address), _)) => address,
            _ => return Err(conflict("listen is missing")),
        };
        if tls.is_none() && !behind_proxy && !listen.ip().is_loopback() {
            return Err(conflict(&format!(
                "listen = \"{listen}\" is reachable from other machines, so the server must speak \
                 TLS: set tls.cert and tls.key, or behind_proxy = true if a reverse proxy does"
            )));
        }
        let public_url =
            text(layers, Key::PublicUrl)?.map(|url| url.trim_end_matches('/').to_owned());
        if let Some(url) = &public_url
            && !(url.starts_with("https://") || url.starts_with("http://"))
        {
            return Err(conflict("public_url begins with https:// (or http:// on one machine)"));
        }
        let registration = match text(layers, Key::Registration)?.as_deref() {
            Some("open") => Registration::Open,
            _ => Registration::Invite,
        };
        Ok(Self {
            listen,
            public_url,
            store,
            registration,
            behind_proxy,
            trusted_proxies,
            admin_socket,
            log: text(layers, Key::Log)?.unwrap_or_else(|| "info".to_owned()),
            log_json: text(layers, Key::LogFormat)?.as_deref() == Some("json"),
            tls,
            auth: Auth {
                token_life: duration(layers, Key::TokenLife)?,
                challenge_life: duration(layers, Key::ChallengeLife)?,
                challenges: size(layers, Key::Challenges)?,
            },
            pairing: Pairing {
                life: duration(layers, Key::PairingLife)?,
                mailboxes: size(layers, Key::Mailboxes)?,
                wait: duration(layers, Key::MailboxWait)?,
            },
            streams: Streams {
                keepalive: duration(layers, Key::KeepAlive)?,
                retry: duration(layers, Key::StreamRetry)?,
                closing_retry: duration(layers, Key::ClosingRetry)?,
                pending: size(layers, Key::StreamPending)?,
                per_app: size(layers, Key::StreamsPerApp)?,
                per_account: size(layers, Key::StreamsPerAccount)?,
            },
            timeouts: Timeouts {
                tls_handshake: duration(layers, Key::TlsHandshake)?,
                header: duration(layers, Key::HeaderTimeout)?,
                body_idle: duration(layers, Key::BodyIdle)?,
                body: duration(layers, Key::BodyTotal)?,
                idle: duration(layers, Key::IdleTimeout)?,
                write_stall: duration(layers, Key::WriteStall)?,
                drain: duration(layers, Key::Drain)?,
            },
            limits: Limits {
                connections: size(layers, Key::Connections)?,
                connections_per_address: size(layers, Key::ConnectionsPerAddress)?,
                inflight_bytes: number(layers, Key::InflightBytes)?,
                pulls_per_account: size(layers, Key::PullsPerAccount)?,
                push_request: size(layers, Key::PushRequest)?,
                push_blobs: size(layers, Key::PushBlobs)?,
                json_request: size(layers, Key::JsonRequest)?,
                page_blobs: size(layers, Key::PageBlobs)?,
                page_bytes: size(layers, Key::PageBytes)?,
                devices: size(layers, Key::Devices)?,
                chain_entries: number(layers, Key::ChainEntries)?,
                apps: number(layers, Key::Apps)?,
                lanes: number(layers, Key::Lanes)?,
                replicas: number(layers, Key::Replicas)?,
                chain_bytes: number(layers, Key::ChainBytes)?,
            },
            quota: Quota {
                bytes: Some(number(layers, Key::QuotaBytes)?).filter(|bytes| *bytes > 0),
                blobs: Some(number(layers, Key::QuotaBlobs)?).filter(|blobs| *blobs > 0),
            },
            rates: Rates {
                address: rate(layers, Key::RateAddress)?,
                account: rate(layers, Key::RateAccount)?,
                sign_in: rate(layers, Key::RateSignIn)?,
                create_account: rate(layers, Key::RateCreate)?,
                chain: rate(layers, Key::RateChain)?,
                pairing: rate(layers, Key::RatePairing)?,
                open_mailbox: rate(layers, Key::RateMailbox)?,
            },
        })
    }

    /// The URL of this server when it listens on `address`.
    pub fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.public_url.clone().unwrap_or_else(|| format!("{scheme}://{address}"))
    }
}

fn conflict(message: &str) -> ConfigError {
    ConfigError::Conflict(message.to_owned())
}

fn parsed(layers: &Layers, key: Key) -> Result<Option<(Value, Origin)>, ConfigError> {
    let Some((text, origin)) = layers.value(key) else { return Ok(None) };
    match key.spec().kind.parse(&text) {
        Ok(value) => Ok(Some((value, origin))),
        Err(message) => Err(ConfigError::Value { name: key.spec().name, origin, message }),
    }
}

/// Reads a key whose table entry promises one shape of value.
macro_rules! reader {
    ($name:ident, $variant:ident, $type:ty) => {
        fn $name(layers: &Layers, key: Key) -> Result<$type, ConfigError> {
            match parsed(layers, key)? {
                Some((Value::$variant(value), _)) => Ok(value),
                _ => Err(conflict(&format!("{} is missing", key.spec().name))),
            }
        }
    };
}

reader!(duration, Duration, Duration);
reader!(boolean, Bool, bool);
reader!(number, Number, u64);
reader!(rate, Rate, Option<Rate>);

fn size(layers: &Layers, key: Key) -> Result<usize, ConfigError> {
    usize::try_from(number(layers, key)?)
        .map_err(|_| conflict(&format!("{} is too large for this machine", key.spec().name)))
}

fn text(layers: &Layers, key: Key) -> Result<Option<String>, ConfigError> {
    Ok(match parsed(layers, key)? {
        Some((Value::Text(text), _)) => Some(text),
        _ => None,
    })
}

fn path(layers: &Layers, key: Key) -> Result<Option<PathBuf>, ConfigError> {
    Ok(match parsed(layers, key)? {
        Some((Value::Path(path), _)) => Some(path),
        _ => None,
    })
}

/// The store where nobody named one: the unit's state directory, else the user's data directory.
///
/// A user is one whose environment says so: a service without `HOME` has to name its store, and must
/// not fill the home that the password database has for its account.
fn default_store() -> Result<StoreLocation, ConfigError> {
    let unit = std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
    let at_home = std::env::var_os("HOME").is_some_and(|home| !home.is_empty());
    let user = || {
        let user = at_home.then(BaseDirs::new).flatten();
        user.map(|user| user.data_dir().join("tidings-server"))
    };
    unit.filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("store"))
        .or_else(user)
        .map(StoreLocation::Sled)
        .ok_or_else(|| conflict("there is no home directory: say where with store = \"sled:DIR\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let mut layers = Layers::new();
        layers.set("store", "memory:", Origin::Default)?;
        for (name, value) in pairs {
            layers.set(name, *value, Origin::Flag("--set".to_owned()))?;
        }
        Config::resolve(&layers)
    }

    #[test]
    fn defaults_resolve() {
        let config = with(&[]).unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:7843");
        assert_eq!(config.auth.token_life, Duration::from_secs(900));
        assert_eq!(config.registration, Registration::Invite);
        assert_eq!(config.quota.bytes, None);
        assert_eq!(config.url("127.0.0.1:9".parse().unwrap()), "http://127.0.0.1:9");
    }

    #[test]
    fn plain_http_stays_on_this_machine() {
        let open = ("listen", "0.0.0.0:7843");
        let error = with(&[open]).unwrap_err().to_string();
        assert!(error.contains("tls.cert"), "{error}");
        with(&[open, ("behind_proxy", "true")]).unwrap();
        with(&[open, ("trusted_proxies", "10.0.0.0/8, ::1")]).unwrap();
        with(&[open, ("tls.cert", "/c"), ("tls.key", "/k")]).unwrap();
        assert!(with(&[("tls.cert", "/c")]).is_err());
    }

    #[test]
    fn floors_hold() {
        let error = with(&[("auth.token_life", "1s")]).unwrap_err().to_string();
        assert_eq!(error, "--set: auth.token_life: 1s is below the least, 2s");
        let error = with(&[("limits.push_request", "13MiB")]).unwrap_err().to_string();
        assert_eq!(error, "--set: limits.push_request: 13MiB is above the most, 12MiB");
    }
}
