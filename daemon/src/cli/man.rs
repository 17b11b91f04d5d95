//! `tidings man DIR`: one page for the program and one for each verb.

use std::fs;
use std::path::PathBuf;

use super::args::command;
use super::context::Context;
use super::failure::Failure;

/// The day that stands in the pages' foot: that of the version.
const RELEASED: &str = "2026-12-01";

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory for the pages; it is created if it does not exist.
    dir: PathBuf,
}

/// Writes the pages.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    fs::create_dir_all(&args.dir)
        .map_err(|error| Failure::io(format_args!("Creating {}", args.dir.display()), &error))?;
    let mut written = Vec::new();
    for (name, page) in pages().map_err(|error| Failure::io("Making the pages", &error))? {
        let path = args.dir.join(&name);
        fs::write(&path, page)
            .map_err(|error| Failure::io(format_args!("Writing {}", path.display()), &error))?;
        written.push(name);
    }
    match context.out.is_json() {
        true => context.out.json_line(&serde_json::json!({ "pages": written })),
        false => context.out.line(format!("{} pages in {}", written.len(), args.dir.display())),
    }
}

/// The pages by file name.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = command();
    root.build();
    let mut pages = Vec::new();
    collect(&root, "tidings", &mut pages)?;
    Ok(pages)
}

fn collect(
    command: &clap::Command,
    name: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> std::io::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .source(concat!("Tidings ", env!("CARGO_PKG_VERSION")))
        .manual("Tidings")
        .date(RELEASED)
        .render(&mut page)?;
    pages.push((format!("{name}.1"), page));
    for verb in command.get_subcommands() {
        if !verb.is_hide_set() && verb.get_name() != "help" {
            collect(verb, &format!("{name}-{}", verb.get_name()), pages)?;
        }
    }
    Ok(())
}
