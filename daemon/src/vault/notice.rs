//! What the desktop shows when another computer changed who belongs to the account.
//!
//! A linked computer that the person did not link reads everything from then on, so every other
//! one says so at once. Without a desktop nothing is shown; `tidings devices list` tells the same.

use notify_rust::{Notification, Urgency};
use tidings_proof::{DeviceKind, EntryBody, SignedEntry};
use tidings_wire::DeviceId;

/// Shows what others changed in the chain, if there is a desktop and anything to tell.
pub fn show(entries: &[SignedEntry], own: DeviceId) {
    let body = text(entries, own);
    if body.is_empty() {
        return;
    }
    tracing::info!(changed = %body.replace('\n', " "), "the account's devices changed");
    let show = move || {
        let shown = Notification::new()
            .appname("Tidings")
            .summary("Tidings: your account changed")
            .body(&body)
            .urgency(Urgency::Critical)
            .show();
        if let Err(error) = shown {
            tracing::debug!(%error, "no desktop shows the notice");
        }
    };
    // A thread of its own, which nobody waits for: a desktop that does not answer must hold up
    // neither the chain nor the end of the daemon.
    if let Err(error) = std::thread::Builder::new().name("notice".into()).spawn(show) {
        tracing::debug!(%error, "the notice has no thread");
    }
}

/// A sentence for each change and what to do, or nothing.
fn text(entries: &[SignedEntry], own: DeviceId) -> String {
    let others = entries.iter().filter(|entry| entry.entry.signer != own);
    let mut lines: Vec<&str> =
        others.filter_map(|entry| sentence(&entry.entry.body, own)).collect();
    if !lines.is_empty() {
        lines.push("If that was not you: tidings devices list");
    }
    lines.join("\n")
}

fn sentence(body: &EntryBody, own: DeviceId) -> Option<&'static str> {
    match body {
        // The person linked this very computer a moment ago.
        EntryBody::AddDevice { device, .. } if device.id() == own => None,
        EntryBody::AddDevice { device, .. } => Some(match device.kind {
            DeviceKind::Computer => "A computer was linked.",
            DeviceKind::Paper => "A recovery kit was made.",
        }),
        EntryBody::RevokeDevices { .. } => Some("A computer was unlinked."),
        EntryBody::Rotate { .. } => Some("The account has new keys."),
        EntryBody::SetFloor(_) => Some("The account no longer accepts old versions of Tidings."),
        // The account's own beginning, and the name that follows each new computer: no news.
        EntryBody::Genesis { .. } | EntryBody::Name { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use tidings_crypto::{DeviceKeys, Keyring, entries, random};

    use super::text;

    #[test]
    fn others_changes_are_told_and_ones_own_are_not() {
        let rng = &mut random::system();
        let (first, second) = (DeviceKeys::generate(rng), DeviceKeys::generate(rng));
        let mut genesis = entries::genesis(&first, rng).unwrap();
        let (epoch, secret) = genesis.secret.take().unwrap();
        let chain = &genesis.chain;
        let mut keyring = Keyring::new(chain.account());
        keyring.insert(chain, epoch, secret).unwrap();
        let co_signature = second.co_sign(chain.account(), chain.next_index());
        let public = second.public();
        let added =
            entries::add_device(&first, chain, &keyring, public, co_signature, rng).unwrap();
        let added = [genesis.entry, added.entry];
        assert_eq!(text(&added, first.id()), "");
        assert_eq!(text(&added, second.id()), "", "its own linking");
        let third = DeviceKeys::generate(rng);
        assert_eq!(
            text(&added, third.id()),
            "A computer was linked.\nIf that was not you: tidings devices list"
        );
    }
}
