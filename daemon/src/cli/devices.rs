//! `tidings devices`: listing the computers of the account, linking, unlinking and naming them.

use clap::Subcommand;
use tidings_wire::linking::{DeviceInfo, DeviceRole};

use super::context::Context;
use super::failure::Failure;

/// Arguments of the verb.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the computers of the account.
    List,
    /// Link the computer that shows this code.
    Add {
        /// The code, such as 4821-amused-violin-tunnel.
        code: String,
    },
    /// Unlink computers that are lost or not used any more: they can read nothing new from then on.
    Revoke {
        /// Their names, or ids as `tidings devices list` shows them.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Give a computer another name.
    Rename {
        /// Its name now, or its id.
        old: String,
        /// What it shall be called.
        new: String,
    },
}

/// Lists, links, unlinks or names devices.
pub async fn run(args: Args, context: Context) -> Result<(), Failure> {
    let local = context.local()?;
    match args.action {
        Action::Add { code } => {
            if !context.out.is_json() {
                eprintln!("waiting for the computer that shows this code");
            }
            let device = local.add_device(&code).await?;
            match context.out.is_json() {
                true => context.out.json_line(&device),
                false => context.out.line(format!("Linked: {}", named(&device))),
            }
        }
        Action::Revoke { names } => {
            let unlinked = local.revoke_devices(&names).await?.devices;
            if context.out.is_json() {
                return unlinked.iter().try_for_each(|device| context.out.json_line(device));
            }
            for device in &unlinked {
                context.out.line(format!("Unlinked: {}", named(device)))?;
            }
            context.out.line("")?;
            context.out.line(
                "What is written from now on has new keys, which it does not have. What it had \
                 before it still has: change passwords and the like that were in your rows if \
                 somebody else may have it.",
            )
        }
        Action::Rename { old, new } => {
            let device = local.rename_device(&old, &new).await?;
            match context.out.is_json() {
                true => context.out.json_line(&device),
                false => context.out.line(format!("Renamed: {}", named(&device))),
            }
        }
        Action::List => {
            let devices = local.devices().await?.devices;
            if context.out.is_json() {
                return devices.iter().try_for_each(|device| context.out.json_line(device));
            }
            let rows: Vec<_> = devices
                .iter()
                .map(|device| vec![named(device), device.id.to_string(), standing(device).into()])
                .collect();
            context.out.columns(&["name", "device", ""], &rows)
        }
    }
}

fn named(device: &DeviceInfo) -> String {
    match (&device.name, device.kind) {
        (Some(name), _) => name.clone(),
        (None, DeviceRole::Computer) => "a computer".into(),
        (None, DeviceRole::Paper) => "recovery kit".into(),
    }
}

fn standing(device: &DeviceInfo) -> &'static str {
    match (device.this, device.active) {
        (true, true) => "this computer",
        (false, true) => "",
        (_, false) => "unlinked",
    }
}
