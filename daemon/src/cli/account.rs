//! `tidings account create URL` and `tidings account show`.

use clap::Subcommand;
use tidings_wire::linking::{AccountAnswer, CreateAccount};

use super::context::Context;
use super::failure::Failure;
use super::linking::SetupArgs;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start an account, with this computer as its first.
    Create(CreateArgs),
    /// Show this computer's account and server.
    Show,
}

#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// The server, such as https://tidings.example.org.
    url: String,
    /// The invite from whoever runs the server; it works once.
    #[arg(long, value_name = "CODE")]
    invite: Option<String>,
    #[command(flatten)]
    setup: SetupArgs,
}

/// Starts the account, or shows it.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let local = context.local()?;
    match args.action {
        Action::Create(args) => {
            let setup = args.setup.setup()?;
            let request = CreateAccount { url: args.url, invite: args.invite, setup };
            let account = local.create_account(&request).await?;
            print(&context, &account)?;
            if context.out.is_json() {
                return Ok(());
            }
            context.out.line("")?;
            context.out.line("On every other computer:")?;
            context.out.line(format!("  tidings login {}", account.url))
        }
        Action::Show => print(&context, &local.account().await?),
    }
}

/// Prints an account, for programs or people.
pub fn print(context: &Context, account: &AccountAnswer) -> Result<(), Failure> {
    if context.out.is_json() {
        return context.out.json_line(account);
    }
    context.out.line(format!("account   {}", account.account))?;
    context.out.line(format!("server    {}", account.url))?;
    context.out.line(format!("device    {} ({})", account.name, account.device))?;
    context.out.line(match account.keystore.as_str() {
        "keychain" => "keys      in the keychain of this desktop".to_owned(),
        _ => "keys      in a file that only this user can read".to_owned(),
    })
}
