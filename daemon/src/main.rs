//! The program `tidings`: daemon and command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidings_daemon::cli::run()
}
