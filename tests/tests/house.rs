//! The rules of the house that a reader of the repository would notice first.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every text file of the repository.
fn texts() -> Vec<(PathBuf, String)> {
    let mut texts = Vec::new();
    let mut dirs = vec![root()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().unwrap().is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | "data" | "vectors") {
                    dirs.push(entry.path());
                }
            } else if let Ok(text) = fs::read_to_string(entry.path()) {
                texts.push((entry.path(), text));
            }
        }
    }
    texts
}

#[test]
fn the_readme_names_the_commands_that_exist() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("cargo build --release && target/release/tidings demo\n"));
    assert!(readme.contains("\ntests/run\n"), "the second command");
    assert!(root().join("tests/run").is_file());
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(ci.contains("tests/run"), ".ci/run runs the README's second command");
    for (link, _) in links(&readme) {
        assert!(root().join(&link).exists(), "README.md links to {link}");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for (path, text) in texts() {
        if path.extension().is_some_and(|extension| extension == "md") {
            for (link, line) in links(&text) {
                let target = path.parent().unwrap().join(&link);
                assert!(target.exists(), "{}:{line} links to {link}", path.display());
            }
        }
    }
}

/// Relative links of a Markdown text, with their lines.
fn links(text: &str) -> Vec<(String, usize)> {
    let mut links = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for part in line.split("](").skip(1) {
            let link = part.split(')').next().unwrap_or_default();
            let path = link.split('#').next().unwrap_or_default();
            if !path.is_empty() && !link.contains("://") && !link.starts_with("mailto:") {
                links.push((path.to_owned(), index + 1));
            }
        }
    }
    links
}

#[test]
fn every_crate_of_the_map_is_there() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for dir in ["shared/wire", "shared/proof", "shared/crypto", "shared/kv", "shared/client"] {
        assert!(readme.contains(dir), "the map of the house lacks {dir}");
    }
    for dir in ["daemon/tables", "daemon/engine", "daemon", "server", "tests", "docs"] {
        assert!(readme.contains(dir), "the map of the house lacks {dir}");
    }
}

#[test]
fn no_unfinished_business() {
    // Assembled, so that this file does not find itself.
    let forbidden = [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["X", "XX:"].concat(),
        ["shared/", "design"].concat(),
        ["shared/", "cases"].concat(),
        ["shared/", "seeds"].concat(),
        ["/work", "/"].concat(),
        ["in a real ", "system"].concat(),
        ["lorem ", "ipsum"].concat(),
    ];
    let mut found = Vec::new();
    for (path, text) in texts() {
        for (index, line) in text.lines().enumerate() {
            let lock = path.ends_with("Cargo.lock");
            for word in forbidden.iter().filter(|word| !lock && line.contains(word.as_str())) {
                found.push(format!("{}:{}: {word}", path.display(), index + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn files_stay_small() {
    let mut long = Vec::new();
    for (path, text) in texts() {
        let lines = text.lines().count();
        if path.extension().is_some_and(|extension| extension == "rs") && lines > 900 {
            long.push(format!("{} has {lines} lines", path.display()));
        }
    }
    assert!(long.is_empty(), "one concept per file: {long:?}");
}
