//! Invites, by the hash of their code: whoever reads the store cannot use them.

use tidings_kv::{Reader, Scan, Txn};
use tidings_wire::Hash;

use super::records::{Row as _, damaged};
use super::table;
use crate::clock::Millis;
use crate::store::{Invite, Refusal};

/// Most invites that are listed or looked through.
const MOST: usize = 10_000;

/// Adds an invite.
pub(crate) fn add(txn: &mut Txn<'_>, code: Hash, invite: &Invite) -> Result<(), Refusal> {
    Ok(txn.put(table::INVITES, code.0, invite.encode())?)
}

/// The invites that can still be used.
pub(crate) fn list(reader: &impl Reader, now: Millis) -> Result<Vec<(Hash, Invite)>, Refusal> {
    let mut invites = Vec::new();
    for (key, value) in reader.range(table::INVITES, &Scan::all(MOST))? {
        let code = Hash::from_slice(&key).ok_or_else(|| damaged(Invite::WHAT, "bad key"))?;
        let invite = Invite::decode(&value)?;
        if now < invite.expires {
            invites.push((code, invite));
        }
    }
    Ok(invites)
}

/// Removes the invites whose hash begins so.
pub(crate) fn revoke(txn: &mut Txn<'_>, prefix: &[u8]) -> Result<usize, Refusal> {
    let found = txn.range(table::INVITES, &Scan::prefix(prefix, MOST))?;
    let count = found.len();
    for (key, _) in found {
        txn.delete(table::INVITES, key)?;
    }
    Ok(count)
}
