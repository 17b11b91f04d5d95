//! From the arguments to an exit code.

use std::process::ExitCode;

use clap::Parser;

use super::args::{Cli, Verb};
use super::context::Context;
use super::failure::{Exit, Failure};
use super::{
    account, apps, completions, daemon, delete, demo, devices, doctor, export, get, import, login,
    man, patch, put, query, recover, recovery, status, tables, watch,
};

/// Runs the program `tidings` with the arguments of this process.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is not worth a second error.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.number()).into();
        }
    };
    let context = Context::new(cli.global);
    let json = context.out.is_json();
    match run_verb(cli.verb, context) {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            if failure.exit != Exit::Done {
                match json {
                    true => eprintln!("{}", failure.to_json()),
                    false => eprintln!("{failure}"),
                }
            }
            failure.exit.into()
        }
    }
}

fn run_verb(verb: Verb, context: Context) -> Result<(), Failure> {
    // Verbs that need no runtime, and one that must not have started threads.
    match verb {
        Verb::Completions(args) => return completions::run(args, &context),
        Verb::Man(args) => return man::run(args, &context),
        Verb::Tied(args) => return demo::run_tied(args),
        _ => {}
    }
    let runtime = match verb {
        Verb::Daemon(_) => daemon::runtime(),
        _ => tokio::runtime::Builder::new_multi_thread().enable_all().build(),
    };
    let runtime = runtime.map_err(|error| Failure::io("Starting", &error))?;
    let result = runtime.block_on(async {
        match verb {
            Verb::Demo(args) => demo::run(args, context).await,
            Verb::Daemon(args) => daemon::run(args, context).await,
            Verb::Account(args) => account::run(args, context).await,
            Verb::Login(args) => login::run(args, context).await,
            Verb::Devices(args) => devices::run(args, context).await,
            Verb::Recovery(args) => recovery::run(args, context).await,
            Verb::Recover(args) => recover::run(args, context).await,
            Verb::Status(args) => status::run(args, context).await,
            Verb::Doctor(args) => doctor::run(args, context).await,
            Verb::Apps(args) => apps::run(args, context).await,
            Verb::Tables(args) => tables::run(args, context).await,
            Verb::Get(args) => get::run(args, context).await,
            Verb::Put(args) => put::run(args, context).await,
            Verb::Patch(args) => patch::run(args, context).await,
            Verb::Delete(args) => delete::run(args, context).await,
            Verb::Query(args) => query::run(args, context).await,
            Verb::Watch(args) => watch::run(args, context).await,
            Verb::Import(args) => import::run(args, context).await,
            Verb::Export(args) => export::run(args, context).await,
            Verb::Completions(_) | Verb::Man(_) | Verb::Tied(_) => Ok(()),
        }
    });
    // A blocking read of standard input must not hold up the exit.
    runtime.shutdown_background();
    result
}
