//! The pairing mailbox: no token, few bytes, ten minutes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde_json::json;
use tidings_wire::pairing::{
    OpenMailboxResponse, PutMailboxRequest, ReadMailboxQuery, ReadMailboxResponse, Side,
};
use tidings_wire::{Code, Nameplate, limits};
use tokio::time::Instant;

use super::{Call, json};
use crate::body;
use crate::clock::Millis;
use crate::failure::{Answer, Failure};
use crate::mailbox::MailboxError;
use crate::rates;
use crate::state::Shared;
use crate::{random, text};

/// `POST /api/pair`: opens a mailbox.
pub(super) async fn open(State(shared): State<Arc<Shared>>, request: Request) -> Answer<Response> {
    let call = Call::new(&shared, request);
    shared.rates.call(rates::Call::OpenMailbox, call.client)?;
    let random = u32::from_be_bytes(random::bytes()?);
    let nameplate = shared.mailboxes.open(random, Instant::now())?;
    json(&OpenMailboxResponse {
        nameplate,
        server_id: shared.identity.server(),
        token_key: shared.identity.public_text(),
        expires_ms: Millis::now().plus(shared.config.pairing.life).0,
    })
}

/// `PUT /api/pair/{nameplate}/{side}`: writes a message.
pub(super) async fn write(
    State(shared): State<Arc<Shared>>,
    path: Path<(String, String)>,
    request: Request,
) -> Answer<Response> {
    let call = Call::new(&shared, request);
    shared.rates.call(rates::Call::Pairing, call.client)?;
    let (nameplate, side) = parse(path)?;
    let put: PutMailboxRequest = call.json(&shared).await?;
    let message = text::decode(&put.message, limits::MAILBOX_MESSAGE)
        .ok_or_else(|| Failure::invalid("message", "at most 64 KiB as base64url, no padding"))?;
    shared.mailboxes.put(nameplate, side, put.index, message, Instant::now())?;
    json(&json!({}))
}

/// `GET /api/pair/{nameplate}/{side}`: reads messages, waiting for the first one asked for.
pub(super) async fn read(
    State(shared): State<Arc<Shared>>,
    path: Path<(String, String)>,
    request: Request,
) -> Answer<Response> {
    let call = Call::new(&shared, request);
    shared.rates.call(rates::Call::Pairing, call.client)?;
    let (nameplate, side) = parse(path)?;
    let asked: ReadMailboxQuery = body::query(&call.uri)?;
    let wait = Duration::from_secs(u64::from(asked.wait)).min(shared.config.pairing.wait);
    let reading = shared.mailboxes.read(nameplate, side, asked.from, Instant::now() + wait);
    let messages = tokio::select! {
        messages = reading => messages?,
        () = shared.stopping.cancelled() => {
            return Err(Failure::new(Code::Unavailable, "the server is stopping").retry_after(5));
        }
    };
    json(&ReadMailboxResponse {
        messages: messages.iter().map(text::encode).collect(),
        server_id: shared.identity.server(),
        token_key: shared.identity.public_text(),
    })
}

fn parse(Path((nameplate, side)): Path<(String, String)>) -> Answer<(Nameplate, Side)> {
    // What cannot be a mailbox is no mailbox.
    let nameplate = nameplate.parse().map_err(|_| MailboxError::NotFound)?;
    let side = side.parse().map_err(|error| Failure::invalid("side", error))?;
    Ok((nameplate, side))
}

impl From<MailboxError> for Failure {
    fn from(error: MailboxError) -> Self {
        let message = error.to_string();
        match error {
            MailboxError::NotFound => {
                Self::new(Code::MailboxNotFound, message).hint("start again with a new code")
            }
            MailboxError::Taken => Self::new(Code::MailboxTaken, message),
            MailboxError::BadIndex => Self::invalid("index", message),
            MailboxError::Full => Self::new(Code::Unavailable, message).retry_after(60),
        }
    }
}
