//! Raw configuration: for each key the text that the strongest source gave, and which that was.
//! Flags win over the environment, the environment over the file, the file over defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::keys::Key;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A configuration that cannot be used. Each message names the key, the origin and what to write.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}: {message}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the parser said, with line and column.
        message: String,
    },
    /// A key that does not exist.
    #[error("{origin}: there is no key {name:?}{}", suggestion(.nearest))]
    Unknown {
        /// The name.
        name: String,
        /// Where it stands.
        origin: Origin,
        /// The nearest known name.
        nearest: Option<&'static str>,
    },
    /// A value of the wrong form or out of its range.
    #[error("{origin}: {name}: {message}")]
    Value {
        /// The key.
        name: &'static str,
        /// Where it stands.
        origin: Origin,
        /// What is wrong.
        message: String,
    },
    /// Values that do not go together, or one that is missing.
    #[error("{0}")]
    Conflict(String),
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

/// The raw values.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    values: BTreeMap<Key, (String, Origin)>,
}

impl Layers {
    /// Nothing but defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads every source: the file if one is named, the environment, then flags.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: impl IntoIterator<Item = (String, String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut layers = Self::new();
        if let Some(path) = file {
            let text = std::fs::read_to_string(path)
                .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
            layers.add_file(path, &text)?;
        }
        layers.add_environment(environment)?;
        for (name, value, flag) in flags {
            layers.set(&name, value, Origin::Flag(flag))?;
        }
        Ok(layers)
    }

    /// Sets one key, over whatever was there.
    ///
    /// # Errors
    /// [`ConfigError::Unknown`]; the value itself is judged when everything is resolved.
    pub fn set(
        &mut self,
        name: &str,
        value: impl Into<String>,
        origin: Origin,
    ) -> Result<(), ConfigError> {
        let Some(key) = Key::named(name) else {
            let nearest = Key::nearest(name).map(|key| key.spec().name);
            return Err(ConfigError::Unknown { name: name.to_owned(), origin, nearest });
        };
        self.values.insert(key, (value.into(), origin));
        Ok(())
    }

    /// The text and origin of a key; `None` when nobody set it and it has no default.
    pub fn value(&self, key: Key) -> Option<(String, Origin)> {
        let set = self.values.get(&key).cloned();
        set.or_else(|| Some((key.spec().default?.to_owned(), Origin::Default)))
    }

    fn add_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            ConfigError::Syntax { path: path.to_owned(), message: error.to_string() }
        })?;
        let origin = Origin::File(path.to_owned());
        for (name, value) in table {
            match value {
                toml::Value::Table(section) => {
                    for (short, value) in section {
                        self.set(&format!("{name}.{short}"), plain(&value), origin.clone())?;
                    }
                }
                value => self.set(&name, plain(&value), origin.clone())?,
            }
        }
        Ok(())
    }

    fn add_environment(
        &mut self,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        for (name, value) in environment {
            // The path of the file itself is read by the command line.
            let Some(rest) = name.strip_prefix(PREFIX).filter(|rest| *rest != "CONFIG") else {
                continue;
            };
            let found = Key::ALL.iter().find(|key| key.spec().env() == name);
            let origin = Origin::Environment(name.clone());
            match found {
                Some(key) => self.set(key.spec().name, value, origin)?,
                None => {
                    let spelled = rest.to_ascii_lowercase().replacen('_', ".", 1);
                    let nearest = Key::nearest(&spelled).map(|key| key.spec().name);
                    return Err(ConfigError::Unknown { name: spelled, origin, nearest });
                }
            }
        }
        Ok(())
    }
}

/// What every environment variable of the server begins with.
const PREFIX: &str = "TIDINGS_SERVER_";

/// A TOML value as the text that the kinds read: strings bare, all else as TOML writes it.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<Layers, ConfigError> {
        let mut layers = Layers::new();
        layers.add_file(Path::new("server.toml"), text)?;
        Ok(layers)
    }

    #[test]
    fn stronger_sources_win_and_say_who_they_are() {
        let mut layers = file("listen = \"127.0.0.1:1\"\n[auth]\ntoken_life = \"5m\"\n").unwrap();
        let (text, origin) = layers.value(Key::Listen).unwrap();
        assert_eq!((text.as_str(), origin.to_string().as_str()), ("127.0.0.1:1", "server.toml"));
        layers
            .add_environment([("TIDINGS_SERVER_LISTEN".to_owned(), "127.0.0.1:2".to_owned())])
            .unwrap();
        let (text, origin) = layers.value(Key::Listen).unwrap();
        assert_eq!(text, "127.0.0.1:2");
        assert_eq!(origin.to_string(), "TIDINGS_SERVER_LISTEN");
        layers.set("listen", "127.0.0.1:3", Origin::Flag("--listen".to_owned())).unwrap();
        assert_eq!(layers.value(Key::Listen).unwrap().0, "127.0.0.1:3");
        assert_eq!(layers.value(Key::TokenLife).unwrap().0, "5m");
        assert_eq!(layers.value(Key::KeepAlive).unwrap().1, Origin::Default);
        assert_eq!(layers.value(Key::PublicUrl), None);
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let error = file("[timeouts]\nheaders = \"1s\"\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "server.toml: there is no key \"timeouts.headers\"; did you mean \"timeouts.header\"?"
        );
        let mut layers = Layers::new();
        let pair = ("TIDINGS_SERVER_TIMEOUTS_HAEDER".to_owned(), "1s".to_owned());
        let error = layers.add_environment([pair]).unwrap_err().to_string();
        assert!(error.contains("did you mean \"timeouts.header\"?"), "{error}");
        let other = [("PATH".to_owned(), "/bin".to_owned())];
        layers.add_environment(other).unwrap();
    }

    #[test]
    fn bad_toml_names_the_line() {
        let error = file("listen = \n").unwrap_err().to_string();
        assert!(error.starts_with("server.toml: ") && error.contains("line 1"), "{error}");
    }
}
