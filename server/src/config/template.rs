//! The commented configuration file, written from the table of keys.

use std::fmt::Write as _;

use super::keys::Key;
use super::value::{Kind, Rate};

/// Width of the comments.
const WIDTH: usize = 96;

/// The file with every key, its documentation, range and default, all commented out.
pub fn template() -> String {
    let mut out = String::from(
        "# Configuration of tidings-server. Every key is optional; what is commented out shows the\n\
         # default. Environment variables (named beside each key) win over this file, flags over both;\n\
         # `tidings-server config show` tells where each value came from.\n#\n",
    );
    wrapped(&mut out, Rate::NOTATION);
    let mut section = "";
    for key in Key::ALL {
        let spec = key.spec();
        if spec.section() != section {
            section = spec.section();
            let _ = write!(out, "\n\n[{section}]");
        }
        out.push_str("\n\n");
        wrapped(&mut out, spec.doc);
        let range = spec.kind.describe();
        let range = if range.is_empty() { range } else { format!("From {range}. ") };
        let range = if matches!(spec.kind, Kind::OneOf(_)) { String::new() } else { range };
        wrapped(&mut out, &format!("{range}Environment: {}", spec.env()));
        let value = spec.default.map_or_else(String::new, |text| written(spec.kind, text));
        let _ = write!(out, "#{} = {value}", spec.short());
        if value.is_empty() {
            out.push_str("\"\"");
        }
    }
    out.push('\n');
    out
}

fn written(kind: Kind, text: &str) -> String {
    let bare = matches!(kind, Kind::Bool | Kind::Count { .. } | Kind::List)
        || text.bytes().all(|byte| byte.is_ascii_digit());
    if bare { text.to_owned() } else { format!("\"{text}\"") }
}

fn wrapped(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Layers, Origin};

    /// `UPDATE=1 cargo test` writes the file anew after a change of the table.
    #[test]
    fn the_file_in_the_repository_is_this_template() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tidings-server.toml");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, template()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), template());
    }

    #[test]
    fn every_default_is_accepted_when_written_out() {
        let text: String = template()
            .lines()
            .filter(|line| !line.starts_with("# ") && *line != "#" && !line.ends_with("\"\""))
            .map(|line| format!("{}\n", line.trim_start_matches('#')))
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, text).unwrap();
        let mut layers = Layers::load(Some(&path), [], []).unwrap();
        layers.set("store", "memory:", Origin::Default).unwrap();
        Config::resolve(&layers).unwrap();
    }
}
