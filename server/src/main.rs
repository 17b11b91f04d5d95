//! `tidings-server`: the program of self-hosters. The command line is in `cli`, one file per
//! verb; everything that it does is in the library.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run()
}
