//! Every configuration key: its name, what it means, its default and the range it may take.
//!
//! This table is the single source of the file format, the environment names, `config show` and
//! the commented template. A key that is not here does not exist.

use super::value::{Kind, Rate};

/// What is known of one key.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// The name in the file, sections joined by a dot.
    pub name: &'static str,
    /// The type and its range.
    pub kind: Kind,
    /// The default as it would be written; `None` when the key has none or it depends on others.
    pub default: Option<&'static str>,
    /// One or more sentences for the template and `config show`.
    pub doc: &'static str,
}

impl Spec {
    /// The section of the file; empty at the top.
    pub fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }

    /// The name within its section.
    pub fn short(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, short)| short)
    }

    /// The environment variable: `TIDINGS_SERVER_` and the name in capitals, dots as underscores.
    pub fn env(&self) -> String {
        format!("TIDINGS_SERVER_{}", self.name.to_ascii_uppercase().replace('.', "_"))
    }
}

/// Defines the keys: variant, name, kind, default, documentation.
macro_rules! keys {
    ($($key:ident = $name:literal, $kind:expr, $default:expr, $doc:literal;)*) => {
        /// A configuration key.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Key { $(#[doc = $doc] $key,)* }

        impl Key {
            /// Every key, in the order of the template.
            pub const ALL: &'static [Self] = &[$(Self::$key,)*];

            /// What is known of it.
            pub const fn spec(self) -> Spec {
                match self {
                    $(Self::$key => Spec { name: $name, kind: $kind, default: $default, doc: $doc },)*
                }
            }
        }
    };
}

impl Key {
    /// Finds a key by its full name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.spec().name == name)
    }

    /// The key whose name is nearest to a wrong one, if any is near.
    pub fn nearest(name: &str) -> Option<Self> {
        let near = |key: &Self| {
            let spec = key.spec();
            // A right name in the wrong section is the likeliest mistake.
            let short = name.rsplit('.').next().unwrap_or(name);
            if spec.short() == short { 0 } else { distance(spec.name, name) }
        };
        Self::ALL.iter().copied().min_by_key(near).filter(|key| near(key) <= name.len().div_ceil(2))
    }
}

/// Levenshtein distance, for the nearest name.
pub(crate) fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = i;
        let mut last = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(&right) {
            let substitute = diagonal + usize::from(a != *b);
            diagonal = *cell;
            last = substitute.min(diagonal + 1).min(last + 1);
            *cell = last;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Milliseconds of whole seconds.
const fn secs(seconds: u64) -> u64 {
    seconds * 1_000
}

const DAY: u64 = secs(24 * 60 * 60);

/// A duration of at least `floor` and at most a day, in milliseconds.
const fn duration(floor: u64) -> Kind {
    Kind::Duration { floor, ceiling: DAY }
}

/// A count between two bounds.
const fn count(floor: u64, ceiling: u64) -> Kind {
    Kind::Count { floor, ceiling }
}

/// A size in bytes between two bounds.
const fn bytes(floor: u64, ceiling: u64) -> Kind {
    Kind::Bytes { floor, ceiling }
}

/// A limit of the protocol as the ceiling of a size: it may only be lowered.
const fn at_most(floor: u64, limit: usize) -> Kind {
    Kind::Bytes { floor, ceiling: limit as u64 }
}

const RATE: Kind = Kind::Rate;

use tidings_wire::limits;

keys! {
    Listen = "listen", Kind::Address, Some("127.0.0.1:7843"),
        "Address and port to listen on. Anything but a loopback address needs `tls.cert` and `tls.key`, or `behind_proxy = true`.";
    PublicUrl = "public_url", Kind::Text, None,
        "The URL under which devices reach this server, as printed by `invite create`. Without it: the listen address.";
    Store = "store", Kind::Store, None,
        "Where everything is kept: \"sled:DIR\", \"redb:DIR\", or \"memory:\" (lost at exit). Without it: \"sled:\" and the data directory of the user, or of the systemd unit.";
    Registration = "registration", Kind::OneOf(&["invite", "open"]), Some("invite"),
        "Who may create an account: \"invite\" asks for a one-use code from `tidings-server invite create`; \"open\" lets anybody.";
    BehindProxy = "behind_proxy", Kind::Bool, Some("false"),
        "A reverse proxy in front of this server speaks TLS, so plain HTTP is allowed on any address.";
    TrustedProxies = "trusted_proxies", Kind::List, Some("[]"),
        "Addresses or networks (\"10.0.0.0/8\") of proxies whose `X-Forwarded-For` is believed when limiting rates per address. Setting it implies `behind_proxy`.";
    AdminSocket = "admin_socket", Kind::Path, None,
        "Path of the admin socket (mode 0600). Without it: `admin.sock` in the store's directory.";
    Log = "log", Kind::Text, Some("info"),
        "What is logged: error, warn, info, debug, trace, or a filter such as \"info,tidings_kv=debug\". A filter that names HTTP libraries may bring tokens into the log.";
    LogFormat = "log_format", Kind::OneOf(&["text", "json"]), Some("text"),
        "How log lines are written to standard error.";

    TlsCert = "tls.cert", Kind::Path, None,
        "PEM file with the certificate chain.";
    TlsKey = "tls.key", Kind::Path, None,
        "PEM file with the private key.";
    TlsReload = "tls.reload", duration(secs(1)), Some("30s"),
        "How often the two files are looked at; a changed pair is taken up without a restart.";

    TokenLife = "auth.token_life", duration(secs(2)), Some("15m"),
        "How long a device's token is valid. Devices renew by themselves.";
    ChallengeLife = "auth.challenge_life", duration(secs(1)), Some("60s"),
        "How long a sign-in challenge may be answered, once.";
    Challenges = "auth.challenges", count(16, 1 << 20), Some("10000"),
        "Most open challenges; the oldest make room.";

    PairingLife = "pairing.life", duration(secs(1)), Some("10m"),
        "How long a pairing mailbox lives.";
    Mailboxes = "pairing.mailboxes", count(1, 9_000), Some("1000"),
        "Most open pairing mailboxes.";
    MailboxWait = "pairing.wait", Kind::Duration { floor: 0, ceiling: secs(30) }, Some("30s"),
        "Longest time that a read of a mailbox waits for a message.";

    KeepAlive = "stream.keepalive", duration(secs(1)), Some("30s"),
        "A comment goes out on every stream this often. Proxies often cut silence after 60 s.";
    StreamRetry = "stream.retry", duration(100), Some("2s"),
        "Streams begin with a `retry:` line between this and twice this.";
    ClosingRetry = "stream.closing_retry", duration(100), Some("30s"),
        "At shutdown every stream gets a `retry:` line below this, so that devices do not return all at once.";
    StreamPending = "stream.pending", count(1, 16), Some("16"),
        "Most signals kept for a stream over HTTP/2 that reads slowly; more of them become one. Over HTTP/1.1 the kernel keeps what a small buffer takes.";
    StreamsPerApp = "stream.per_app", count(1, 1 << 20), Some("100"),
        "Most open streams of one (account, app).";
    StreamsPerAccount = "stream.per_account", count(1, 1 << 20), Some("2000"),
        "Most open streams of one account.";

    TlsHandshake = "timeouts.tls_handshake", duration(100), Some("10s"),
        "A TLS handshake must finish within this.";
    HeaderTimeout = "timeouts.header", duration(100), Some("10s"),
        "The head of a request must arrive within this.";
    BodyIdle = "timeouts.body_idle", duration(100), Some("30s"),
        "A request body may pause for at most this.";
    BodyTotal = "timeouts.body", duration(secs(1)), Some("10m"),
        "A request body must have arrived within this.";
    IdleTimeout = "timeouts.idle", duration(100), Some("60s"),
        "A connection without a request in progress is closed after this.";
    WriteStall = "timeouts.write_stall", duration(100), Some("20s"),
        "A connection that takes no byte for this long is closed.";
    Drain = "timeouts.drain", duration(0), Some("10s"),
        "At shutdown, requests in progress get this long to finish.";

    Connections = "limits.connections", count(1, 1 << 22), Some("10000"),
        "Most open connections; also never more than 90 % of the files that the process may open.";
    ConnectionsPerAddress = "limits.connections_per_address", count(1, 1 << 22), Some("1000"),
        "Most open connections from one address (IPv6: one /64). Behind a proxy, all count as the proxy's, so it is not applied to trusted proxies.";
    InflightBytes = "limits.inflight_bytes", bytes(16 << 20, 1 << 40), Some("256MiB"),
        "Most bytes of request bodies held in memory at a time; further requests wait.";
    PullsPerAccount = "limits.pulls_per_account", count(1, 10_000), Some("32"),
        "Pulls of one account that are answered at a time, each with a page in memory; further ones wait.";
    PushRequest = "limits.push_request", at_most(1 << 10, limits::PUSH_REQUEST), Some("12MiB"),
        "Largest push, in bytes. May only be lowered; devices expect the default.";
    PushBlobs = "limits.push_blobs", count(1, limits::PUSH_BLOBS as u64), Some("4096"),
        "Most blobs in one push. May only be lowered.";
    JsonRequest = "limits.json_request", at_most(1 << 10, limits::JSON_REQUEST), Some("1MiB"),
        "Largest JSON request. May only be lowered.";
    PageBlobs = "limits.page_blobs", count(1, limits::PAGE_BLOBS as u64), Some("1000"),
        "Most blobs in one page of a pull. May only be lowered.";
    PageBytes = "limits.page_bytes", at_most(1 << 10, limits::PAGE_BYTES), Some("4MiB"),
        "Target size of one page of a pull. May only be lowered.";
    Devices = "limits.devices", count(2, limits::DEVICES as u64), Some("256"),
        "Most active devices of an account. May only be lowered.";
    ChainEntries = "limits.chain_entries", count(16, 1 << 20), Some("10000"),
        "Most entries in the device chain of an account. Unlinking a device may go beyond.";
    Apps = "limits.apps", count(1, 100_000), Some("1000"),
        "Most apps of an account.";
    Lanes = "limits.lanes", count(1, 100_000), Some("100000"),
        "Most lanes (table and replica) of one app of an account.";

    Replicas = "limits.replicas", count(16, 1 << 20), Some("10000"),
        "Most replicas (a device has one, and a new one after it was copied or restored) of one app of an account.";
    ChainBytes = "limits.chain_bytes", bytes(1 << 20, 1 << 40), Some("64MiB"),
        "Most bytes of an account's device chain and key ring, which do not count against the quota. Unlinking a device may go beyond.";

    QuotaBytes = "quota.bytes", bytes(0, 1 << 50), Some("0"),
        "Most bytes of blobs and manifests an account may keep here; 0 means no limit but the disk's.";
    QuotaBlobs = "quota.blobs", count(0, 1 << 50), Some("0"),
        "Most blobs an account may keep here; 0 means no limit.";

    RateAddress = "rates.address", RATE, Some("400/s burst 8000"),
        "Requests of any kind per address (IPv6: one /64).";
    RateAccount = "rates.account", RATE, Some("400/s burst 8000"),
        "Requests with a token per account.";
    RateSignIn = "rates.sign_in", RATE, Some("10/s burst 600"),
        "Challenges and sign-ins per address.";
    RateCreate = "rates.create_account", RATE, Some("10/min burst 30"),
        "Attempts to create an account per address; also what limits guessing invite codes.";
    RateChain = "rates.chain", RATE, Some("10/s burst 300"),
        "Reads of a device chain and appends to one, per address.";
    RatePairing = "rates.pairing", RATE, Some("10/s burst 300"),
        "Reads and writes of pairing mailboxes per address.";
    RateMailbox = "rates.open_mailbox", RATE, Some("10/min burst 20"),
        "New pairing mailboxes per address.";
}

impl Rate {
    /// The doc of the notation, for the template.
    pub const NOTATION: &'static str = "Rates are written \"N/s\", \"N/min\" or \"N/h\", with \" burst M\" for what may come at once; \"off\" lifts one.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_parse() {
        let mut names: Vec<_> = Key::ALL.iter().map(|key| key.spec().name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Key::ALL.len());
        for key in Key::ALL {
            let spec = key.spec();
            if let Some(default) = spec.default {
                spec.kind.parse(default).unwrap_or_else(|error| panic!("{}: {error}", spec.name));
            }
        }
    }

    #[test]
    fn a_wrong_name_finds_its_neighbour() {
        assert_eq!(Key::nearest("lisen"), Some(Key::Listen));
        assert_eq!(Key::nearest("timeouts.headers"), Some(Key::HeaderTimeout));
        assert_eq!(Key::nearest("keepalive"), Some(Key::KeepAlive));
        assert_eq!(Key::nearest("zzzzzzzzzz"), None);
    }
}
