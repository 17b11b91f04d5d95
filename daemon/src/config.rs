//! What can be set: every interval and limit, with its default, its floor and where its value
//! came from.
//!
//! Raw text from the file, the environment and the command line is laid over the defaults, in
//! this order, and resolved once at start. Unknown keys are refused with the nearest known one.

mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::text::Setting;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file exists but cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{} is not a configuration: {reason}", .path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// Line and reason.
        reason: String,
    },
    /// A key that does not exist.
    #[error("there is no setting `{key}` ({origin}){}", nearest_hint(.nearest))]
    UnknownKey {
        /// The key.
        key: String,
        /// Where it was set.
        origin: Origin,
        /// The most similar key.
        nearest: Option<&'static str>,
    },
    /// A value that the key cannot have.
    #[error("`{key}` cannot be `{value}` ({origin}): {reason}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// Where it was set.
        origin: Origin,
        /// What is wrong.
        reason: String,
    },
}

fn nearest_hint(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |key| format!(": did you mean `{key}`?"))
}

/// One setting as `config show` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The key.
    pub key: &'static str,
    /// The value in force, as it could be written into the file.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
    /// What it does.
    pub doc: &'static str,
}

/// Values as they were written, before anything is judged: key → (text, origin).
#[derive(Debug, Clone, Default)]
pub struct RawConfig {
    values: BTreeMap<String, (String, Origin)>,
}

impl RawConfig {
    /// Lays the values of a TOML file over what is there; a file that does not exist sets
    /// nothing.
    ///
    /// # Errors
    /// The file cannot be read or is not TOML.
    pub fn file(mut self, path: &Path) -> Result<Self, ConfigError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(self),
            Err(source) => return Err(ConfigError::Unreadable { path: path.into(), source }),
        };
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            ConfigError::NotToml { path: path.into(), reason: error.to_string() }
        })?;
        self.table("", &table, &Origin::File(path.into()));
        Ok(self)
    }

    /// Lays variables over what is there: `TIDINGS_API_HEADER_TIMEOUT` sets
    /// `api.header_timeout`. Variables that name no setting are left alone, because
    /// `TIDINGS_HOME`, `TIDINGS_APP` and others belong to somebody else.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        for (name, value) in variables {
            let key = KEYS.iter().find(|key| variable(key) == name);
            if let Some(key) = key {
                self.values.insert((*key).to_owned(), (value, Origin::Environment(name)));
            }
        }
        self
    }

    /// Lays other values over what is there.
    #[must_use]
    pub fn over(mut self, other: Self) -> Self {
        self.values.extend(other.values);
        self
    }

    /// Sets one key as the command line does.
    #[must_use]
    pub fn flag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.values.insert(key.into(), (value.into(), Origin::Flag));
        self
    }

    /// Judges every value.
    ///
    /// # Errors
    /// The first key that does not exist or has a value that it cannot have.
    pub fn resolve(self) -> Result<Config, ConfigError> {
        for (key, (_, origin)) in &self.values {
            if !KEYS.contains(&key.as_str()) {
                return Err(ConfigError::UnknownKey {
                    key: key.clone(),
                    origin: origin.clone(),
                    nearest: text::nearest(key, KEYS),
                });
            }
        }
        Config::from_raw(&self.values)
    }

    fn table(&mut self, prefix: &str, table: &toml::Table, origin: &Origin) {
        for (name, value) in table {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match value {
                toml::Value::Table(inner) => self.table(&key, inner, origin),
                toml::Value::String(text) => {
                    self.values.insert(key, (text.clone(), origin.clone()));
                }
                other => {
                    self.values.insert(key, (other.to_string(), origin.clone()));
                }
            }
        }
    }
}

/// The environment variable of a key.
fn variable(key: &str) -> String {
    format!("TIDINGS_{}", key.replace('.', "_").to_uppercase())
}

/// Defines the settings: field, type, key, default and the range that it may have.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $key:literal, $default:literal,
       $floor:literal..=$ceiling:literal;)*) => {
        /// Every setting, resolved.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Config {
            $($(#[doc = $doc])+ pub $field: $type,)*
            origins: BTreeMap<&'static str, Origin>,
        }

        /// Every key.
        pub const KEYS: &[&str] = &[$($key,)*];

        impl Config {
            fn from_raw(
                raw: &BTreeMap<String, (String, Origin)>,
            ) -> Result<Self, ConfigError> {
                let mut origins = BTreeMap::new();
                $(let $field = {
                    let (value, origin) = match raw.get($key) {
                        Some((value, origin)) => (value.as_str(), origin.clone()),
                        None => ($default, Origin::Default),
                    };
                    let read = <$type as Setting>::within(value, $floor, $ceiling)
                        .map_err(|reason| ConfigError::BadValue {
                            key: $key,
                            value: value.to_owned(),
                            origin: origin.clone(),
                            reason,
                        })?;
                    origins.insert($key, origin);
                    read
                };)*
                Ok(Self { $($field,)* origins })
            }

            /// Every setting with its value and origin, in the order of the documentation.
            pub fn show(&self) -> Vec<Shown> {
                vec![$(Shown {
                    key: $key,
                    value: Setting::show(&self.$field),
                    origin: self.origins.get($key).cloned().unwrap_or(Origin::Default),
                    doc: concat!($($doc,)+).trim(),
                },)*]
            }
        }
    };
}

settings! {
    /// How long a client may take for the head of a request, from connecting or its last answer.
    header_timeout: Duration = "api.header_timeout", "60s", "100ms"..="1d";
    /// How long a request's body may pause.
    body_idle: Duration = "api.body_idle", "30s", "100ms"..="10m";
    /// How long a stream's client may take nothing before it is cut off.
    write_stall: Duration = "api.write_stall", "30s", "100ms"..="10m";
    /// Most connections at once.
    connections: usize = "api.connections", "512", "4"..="16384";
    /// Most open streams of one app.
    streams_per_app: usize = "api.streams_per_app", "100", "1"..="10000";
    /// How often `/stream` shows that it lives.
    stream_heartbeat: Duration = "api.stream_heartbeat", "15s", "50ms"..="60s";
    /// How often `/subscribe` shows that it lives.
    subscribe_heartbeat: Duration = "api.subscribe_heartbeat", "25s", "50ms"..="60s";
    /// Most changes that a resumed stream repeats before it asks for a new read.
    replay_changes: usize = "api.replay_changes", "1000", "1"..="100000";
    /// Most log entries that a resumed stream looks at for them.
    replay_entries: usize = "api.replay_entries", "20000", "1"..="1000000";
    /// How long open streams and requests have when the daemon stops.
    drain: Duration = "api.drain", "10s", "0ms"..="5m";
    /// How long an app's log keeps its changes.
    log_age: Duration = "log.age", "7d", "1s"..="365d";
    /// Most changes that an app's log keeps.
    log_entries: usize = "log.entries", "1000000", "10"..="100000000";
    /// Most bytes that an app's log keeps.
    log_bytes: u64 = "log.bytes", "256MiB", "4KiB"..="64GiB";
    /// How often what is too old is taken out of logs that changed.
    log_trim: Duration = "log.trim_every", "10m", "100ms"..="1d";
    /// Longest first wait after the server failed; it doubles with each further failure.
    backoff_first: Duration = "sync.backoff_first", "1s", "10ms"..="1m";
    /// Longest wait after the server failed.
    backoff_max: Duration = "sync.backoff_max", "60s", "50ms"..="1h";
    /// A connection that stood this long forgets earlier failures.
    healthy_after: Duration = "sync.healthy_after", "60s", "100ms"..="1h";
    /// Silence of the server after which a connection is dead: 2.5 of its keep-alives.
    stream_silence: Duration = "sync.stream_silence", "75s", "500ms"..="10m";
    /// How long the first byte of a stream may take before something on the way counts as holding
    /// it back.
    stream_first_bytes: Duration = "sync.stream_first_bytes", "10s", "100ms"..="10m";
    /// How often everything is read even without a hint.
    poll: Duration = "sync.poll", "15m", "500ms"..="1d";
    /// The same while something on the way holds hints back.
    poll_buffered: Duration = "sync.poll_buffered", "60s", "500ms"..="1d";
    /// How long before its end a sign-in is renewed.
    token_margin: Duration = "sync.token_margin", "60s", "0ms"..="10m";
    /// Wait before a missing change is fetched a second time.
    refetch_second: Duration = "sync.refetch_second", "5s", "50ms"..="1h";
    /// Wait before a missing change is fetched a third time; then it counts as withheld.
    refetch_third: Duration = "sync.refetch_third", "60s", "50ms"..="1h";
    /// Longest wait that a server may ask for.
    retry_after_max: Duration = "sync.retry_after_max", "10m", "100ms"..="1d";
    /// How often this computer says what it has seen even if it wrote nothing.
    manifest_every: Duration = "sync.manifest_every", "1d", "1s"..="30d";
    /// How long after changes of others came it says so.
    manifest_after: Duration = "sync.manifest_after", "1h", "500ms"..="1d";
    /// Most bytes of changes that wait for a missing one, per app.
    staged_bytes: u64 = "sync.staged_bytes", "64MiB", "1MiB"..="1GiB";
    /// Most calls to the server about rows at once.
    sync_parallel: usize = "sync.parallel", "4", "1"..="64";
    /// Most entries that one page asks for.
    page_entries: usize = "sync.page_entries", "1000", "1"..="1000";
    /// Most bytes of own changes in one push, before compression.
    push_bytes: u64 = "sync.push_bytes", "8MiB", "4KiB"..="8MiB";
    /// How long a connection to the server may take.
    connect_timeout: Duration = "sync.connect_timeout", "10s", "100ms"..="5m";
    /// How long the server may take for a small answer.
    answer_timeout: Duration = "sync.answer_timeout", "30s", "100ms"..="10m";
    /// How long a push or a page may take.
    transfer_timeout: Duration = "sync.transfer_timeout", "5m", "1s"..="1h";
    /// How long an answer may pause.
    stall_timeout: Duration = "sync.stall_timeout", "30s", "100ms"..="10m";
    /// How often the daemon looks whether the computer slept; after a longer sleep it does so at
    /// once.
    sleep_check: Duration = "sync.sleep_check", "10s", "100ms"..="10m";
    /// How often a locked keychain is asked again.
    unlock_every: Duration = "sync.unlock_every", "10s", "100ms"..="1h";
    /// By how much the clock may differ from the server's before the person is told.
    clock_tolerance: Duration = "sync.clock_tolerance", "10m", "1s"..="365d";
}

impl Default for Config {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "a test resolves the defaults, which are constants")]
        RawConfig::default().resolve().expect("the defaults resolve")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_laid_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        std::fs::write(&file, "[api]\nheader_timeout = \"5s\"\nconnections = 7\n").unwrap();
        let config = RawConfig::default()
            .file(&file)
            .unwrap()
            .environment([
                ("TIDINGS_API_CONNECTIONS".to_owned(), "9".to_owned()),
                ("TIDINGS_HOME".to_owned(), "/elsewhere".to_owned()),
            ])
            .flag("log.bytes", "1MiB")
            .resolve()
            .unwrap();
        assert_eq!(config.header_timeout, Duration::from_secs(5));
        assert_eq!(config.connections, 9);
        assert_eq!(config.log_bytes, 1 << 20);
        assert_eq!(config.log_age, Duration::from_secs(7 * 86_400));
        let shown = config.show();
        let origin = |key| shown.iter().find(|shown| shown.key == key).unwrap().origin.to_string();
        assert_eq!(origin("api.header_timeout"), file.display().to_string());
        assert_eq!(origin("api.connections"), "$TIDINGS_API_CONNECTIONS");
        assert_eq!(origin("log.bytes"), "command line");
        assert_eq!(origin("log.age"), "default");
        assert_eq!(shown.len(), KEYS.len());
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let refused = |key: &str, value: &str| {
            RawConfig::default().flag(key, value).resolve().unwrap_err().to_string()
        };
        assert_eq!(
            refused("api.heder_timeout", "1s"),
            "there is no setting `api.heder_timeout` (command line): \
             did you mean `api.header_timeout`?"
        );
        assert_eq!(
            refused("api.header_timeout", "1ms"),
            "`api.header_timeout` cannot be `1ms` (command line): the floor is 100ms"
        );
        assert!(refused("api.header_timeout", "fast").contains("a duration such as"));
        assert!(refused("api.connections", "-1").contains("a whole number"));
        assert!(refused("log.bytes", "65GiB").contains("the ceiling is 64GiB"));
    }
}
