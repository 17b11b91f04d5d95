//! `tidings completions SHELL`.

use clap_complete::Shell;

use super::args::command;
use super::context::Context;
use super::failure::Failure;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the script.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    context.out.bytes(&script(args.shell))
}

/// The completion script for a shell.
fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "tidings", &mut script);
    script
}
