//! `tidings devices list` and `tidings devices add CODE`.

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
}

/// Lists the devices, or links one.
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
