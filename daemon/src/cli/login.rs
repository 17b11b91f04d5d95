//! `tidings login URL`: links this computer, by a code that is typed on a linked one.

use serde_json::{Value, json};
use tidings_wire::linking::{Login, LoginEvent};

use super::account;
use super::context::Context;
use super::failure::Failure;
use super::linking::SetupArgs;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The server, such as https://tidings.example.org.
    url: String,
    #[command(flatten)]
    setup: SetupArgs,
}

/// Shows the code and waits for the other computer.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let setup = args.setup.setup()?;
    let local = context.local()?;
    let mut linking = local.login(&Login { url: args.url, setup }).await?;
    loop {
        let event = linking.next().await?;
        if context.out.is_json() {
            let data = event.data().map_err(Failure::unexpected)?;
            let data: Value = serde_json::from_str(&data).map_err(Failure::unexpected)?;
            context.out.json_line(&json!({ "event": event.name(), "data": data }))?;
            if matches!(event, LoginEvent::Paired(_)) {
                return Ok(());
            }
            continue;
        }
        match event {
            LoginEvent::Code(shown) => {
                context.out.line("On a computer that is linked already, type:")?;
                context.out.line("")?;
                context.out.line(format!("  tidings devices add {}", shown.code))?;
                context.out.line("")?;
                context.out.line(format!(
                    "The code lasts until {} and allows one guess.",
                    shown.expires_at
                ))?;
            }
            LoginEvent::Waiting(step) => context.out.line(step.message)?,
            LoginEvent::Paired(account) => {
                context.out.line("Linked.")?;
                return account::print(&context, &account);
            }
            LoginEvent::Error(problem) => return Err(Failure::problem(&problem)),
        }
    }
}
