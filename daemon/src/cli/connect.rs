//! The daemon that a verb talks to, and what its refusals mean to a person.

use std::future::Future;
use std::path::{Path, PathBuf};

use tidings_client::local::{Client, LocalError};
use tidings_client::socket::{OWNER_TOKEN_NAME, Places};

use super::context::Context;
use super::failure::Failure;

/// The daemon of one home.
#[derive(Debug)]
pub struct Local {
    /// The client.
    pub client: Client,
    home: Option<PathBuf>,
}

/// What the command line is called in the origin of its changes.
const NAME: &str = "tidings-cli";

impl Context {
    /// The daemon of the home that was named. Nothing is sent yet.
    ///
    /// # Errors
    /// The home cannot be found, or its token not be read.
    pub fn local(&self) -> Result<Local, Failure> {
        let places = Places::find(self.home.as_deref()).map_err(Failure::home)?;
        Local::at(&places, self.home.as_deref())
    }
}

impl Local {
    /// The daemon at these places; `named` is the home that a person named.
    ///
    /// # Errors
    /// The owner's token cannot be read.
    pub fn at(places: &Places, named: Option<&Path>) -> Result<Self, Failure> {
        let client = Client::new(&places.socket).with_name(NAME).map_err(Failure::unexpected)?;
        let token = places.data.join(OWNER_TOKEN_NAME);
        let client = match std::fs::read_to_string(&token) {
            Ok(token) => client.with_token(token.trim()).map_err(Failure::unexpected)?,
            // A home without a token has never had a daemon: the call will say so.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => client,
            Err(error) => {
                return Err(Failure::io(format_args!("Reading {}", token.display()), &error));
            }
        };
        Ok(Self { client, home: named.map(Path::to_owned) })
    }

    /// Waits for an answer, and turns a refusal into what a person reads.
    ///
    /// # Errors
    /// The daemon is not there, or refused.
    pub async fn ask<T>(
        &self,
        call: impl Future<Output = Result<T, LocalError>>,
    ) -> Result<T, Failure> {
        call.await.map_err(|error| self.failure(error))
    }

    /// What a person reads about a failed call.
    pub fn failure(&self, error: LocalError) -> Failure {
        match error {
            LocalError::NoDaemon { socket, .. } => {
                Failure::no_daemon(&socket, self.home.as_deref())
            }
            LocalError::Problem { problem, .. } => Failure::problem(&problem),
            LocalError::Refused { .. } => Failure::home(error),
            LocalError::Timeout | LocalError::Interrupted(_) => Failure::lost(error),
            LocalError::Protocol(_) | LocalError::BadRequest(_) => Failure::unexpected(error),
        }
    }
}
