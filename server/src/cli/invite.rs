//! `tidings-server invite create|list|revoke`: one-use codes for new accounts.

use clap::{Args, Subcommand};
use serde_json::json;
use tidings_server::admin::{CreateInvite, Operator};

use super::{Common, Fault, block_on, output};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Makes a code and prints what the invited person types.
    Create(Create),
    /// Lists the codes that were not used yet.
    List,
    /// Makes a code unusable.
    Revoke {
        /// The code, or its id from `invite list`.
        code: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// How many days the code can be used.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=365))]
    days: u64,
    /// For whom it is, to be shown in the list.
    #[arg(long, default_value = "")]
    note: String,
}

/// Does one of them.
pub(super) fn run(common: &Common, verb: &Verb) -> Result<(), Fault> {
    let config = common.resolve()?;
    block_on(async {
        let operator = Operator::find(&config).await?;
        let done = answer(common, verb, &operator).await;
        let closed = operator.close().await;
        done?;
        Ok(closed?)
    })
}

async fn answer(common: &Common, verb: &Verb, operator: &Operator) -> Result<(), Fault> {
    match verb {
        Verb::Create(create) => {
            let life_s = create.days * 24 * 60 * 60;
            let asked = CreateInvite { life_s, note: create.note.clone() };
            let created = operator.create_invite(asked).await?;
            if common.json {
                output::json(&created);
            } else {
                output::line(&format!("Invite code: {}", created.code));
                output::line(&format!("It can be used once, until {}.", date(created.expires_ms)));
                output::line("The invited person types:");
                output::line("");
                output::line(&format!("    {}", created.command));
            }
        }
        Verb::List => {
            let invites = operator.invites().await?;
            if common.json {
                output::json(&json!({ "invites": invites }));
            } else if invites.is_empty() {
                output::line("No open invites.");
            }
            for invite in invites.iter().filter(|_| !common.json) {
                let until = date(invite.expires_ms);
                output::line(&format!("{}  until {until}  {}", invite.id, invite.note));
            }
        }
        Verb::Revoke { code } => {
            let revoked = operator.revoke_invite(code).await?;
            if revoked.revoked == 0 {
                return Err(Fault::Failed("there is no such invite".to_owned()));
            }
            if common.json {
                output::json(&revoked);
            } else {
                output::line("The invite cannot be used any more.");
            }
        }
    }
    Ok(())
}

fn date(millis: u64) -> String {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).map_or_else(
        |_| "the end of time".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}
