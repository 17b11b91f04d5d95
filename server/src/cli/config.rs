//! `tidings-server config show|check|template`.

use clap::Subcommand;
use serde_json::{Map, json};
use tidings_server::config::{Config, Key, template};

use super::{Common, Fault, output};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Shows every value and where it came from.
    Show,
    /// Says whether the configuration can be used.
    Check,
    /// Prints a commented configuration file with every key.
    Template,
}

/// Does one of them.
pub(super) fn run(common: &Common, verb: &Verb) -> Result<(), Fault> {
    match verb {
        Verb::Show => show(common),
        Verb::Check => {
            let config = common.resolve()?;
            if common.json {
                output::json(&json!({ "ok": true, "store": config.store.to_string() }));
            } else {
                output::line("The configuration can be used.");
            }
            Ok(())
        }
        Verb::Template => {
            output::line(template().trim_end());
            Ok(())
        }
    }
}

fn show(common: &Common) -> Result<(), Fault> {
    let layers = common.layers()?;
    let config = Config::resolve(&layers)?;
    let mut all = Map::new();
    for key in Key::ALL {
        let name = key.spec().name;
        let (value, origin) = match layers.value(*key) {
            Some((value, origin)) => (value, origin.to_string()),
            None => (derived(*key, &config), "derived".to_owned()),
        };
        if common.json {
            all.insert(name.to_owned(), json!({ "value": value, "origin": origin }));
        } else {
            output::line(&format!("{name} = {value}  # {origin}"));
        }
    }
    if common.json {
        output::json(&all);
    }
    Ok(())
}

/// What a key without a default of its own comes to.
fn derived(key: Key, config: &Config) -> String {
    match key {
        Key::Store => config.store.to_string(),
        Key::PublicUrl => config.url(config.listen),
        Key::AdminSocket => {
            config.admin_socket.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
        }
        _ => String::new(),
    }
}
