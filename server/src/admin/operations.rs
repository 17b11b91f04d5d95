//! What an operator can do, as calls on a store. The socket and the command line share them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidings_wire::{Generation, ServerId};

use crate::auth::identity::Identity;
use crate::clock::Millis;
use crate::failure::{Answer, Failure};
use crate::invite;
use crate::store::{Invite, Store};

/// An invite to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateInvite {
    /// How long it can be used, in seconds.
    pub life_s: u64,
    /// What the operator wants to remember, at most 200 characters.
    #[serde(default)]
    pub note: String,
}

/// A new invite: the only time that its code is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedInvite {
    /// The code.
    pub code: String,
    /// What the invited person types.
    pub command: String,
    /// When it ends, Unix milliseconds.
    pub expires_ms: u64,
}

/// An invite that can still be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedInvite {
    /// The beginning of its code's hash, by which it is revoked.
    pub id: String,
    /// When it was made, Unix milliseconds.
    pub created_ms: u64,
    /// When it ends, Unix milliseconds.
    pub expires_ms: u64,
    /// The operator's note.
    pub note: String,
}

/// What revoking did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedInvites {
    /// How many invites are gone.
    pub revoked: usize,
}

/// What a server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// Its version.
    pub version: String,
    /// Its id, pinned by devices.
    pub server_id: ServerId,
    /// The life of its store.
    pub generation: Generation,
    /// Its URL.
    pub url: String,
    /// Open streams; none without a running server.
    pub streams: usize,
}

/// Digits of an invite's id.
const ID_DIGITS: usize = 12;
/// Longest note, in characters.
const NOTE: usize = 200;
/// Longest life of an invite.
const LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Makes an invite.
pub(super) async fn create(
    store: &dyn Store,
    url: &str,
    asked: CreateInvite,
) -> Answer<CreatedInvite> {
    if asked.note.chars().count() > NOTE {
        return Err(Failure::invalid("note", format!("at most {NOTE} characters")));
    }
    let life = Duration::from_secs(asked.life_s);
    if life.is_zero() || life > LIFE {
        return Err(Failure::invalid("life_s", "from a second to a year"));
    }
    let code = invite::code()?;
    let now = Millis::now();
    let expires = now.plus(life);
    let invite = Invite { created: now, expires, note: asked.note };
    store.add_invite(invite::hash(&code), invite).await?;
    let command = format!("tidings account create {url} --invite {code}");
    Ok(CreatedInvite { code, command, expires_ms: expires.0 })
}

/// Lists the invites that can still be used.
pub(super) async fn list(store: &dyn Store) -> Answer<Vec<ListedInvite>> {
    let invites = store.invites(Millis::now()).await?;
    let listed = invites.into_iter().map(|(hash, invite)| ListedInvite {
        id: hash.to_string().chars().take(ID_DIGITS).collect(),
        created_ms: invite.created.0,
        expires_ms: invite.expires.0,
        note: invite.note,
    });
    Ok(listed.collect())
}

/// Revokes an invite by its id, or by its code.
pub(super) async fn revoke(store: &dyn Store, which: &str) -> Answer<RevokedInvites> {
    let id = which.len() >= 8 && which.len().is_multiple_of(2);
    let prefix = if id { decode_hex(which) } else { None };
    let prefix = prefix.unwrap_or_else(|| invite::hash(which).0.to_vec());
    let revoked = store.revoke_invites(prefix).await?;
    Ok(RevokedInvites { revoked })
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    Some(digits?.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, d| byte << 4 | d)).collect())
}

/// What the server is.
pub(super) fn facts(store: &dyn Store, url: &str, streams: usize) -> ServerFacts {
    ServerFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        server_id: Identity::new(store.token_key()).server(),
        generation: store.timeline().generation,
        url: url.to_owned(),
        streams,
    }
}
