//! What the person and the apps are told of the sync side: one state, and alarms in words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use tidings_engine::{Alarm, Engine, Link, Time};
use tidings_wire::local::SyncState;
use tidings_wire::{AppId, DeviceId};

use super::Shared;
use super::account::device_info;
use super::quarantine::Held;
use crate::clock::utc;
use crate::vault::{AccountRecord, Unlocked};

/// The code of the alarm about a stream that is held back on its way.
const BUFFERED: &str = "stream_buffered";

/// The code of the alarm about a clock that is wrong.
const CLOCK: &str = "clock_differs";

/// The code of the alarm about changes that do not verify or open.
const BAD_BLOB: &str = "bad_blob";

/// The code of the alarm about an entry of the device chain that does not verify.
const CHAIN_INVALID: &str = "chain_invalid";

/// The code of the alarm about changes of a device that was unlinked.
const REVOKED_AUTHOR: &str = "revoked_author";

/// The code of the alarm about keys that are kept back, or do not fit the device chain.
const BAD_WRAP: &str = "bad_wrap";

impl Shared {
    /// Tells which account this is.
    pub(super) fn show_account(&self, record: &AccountRecord) {
        self.status.change(|status| {
            status.account = Some(record.account);
            status.device = Some(record.device);
            status.server = Some(record.url.clone());
        });
    }

    /// Tells that something came of devices that were unlinked, beyond what counts of them.
    pub(super) fn report_revoked_authors(&self, unlocked: &Unlocked, devices: &BTreeSet<DeviceId>) {
        // Until its lanes are anchored, nobody can say whether it counts.
        let anchored = |device: &DeviceId| {
            unlocked.unanchored().iter().all(|(_, replica, _)| replica.device != *device)
        };
        for device in devices.iter().filter(|device| anchored(device)) {
            let name = device_info(unlocked, *device).and_then(|info| info.name);
            let name = name.unwrap_or_else(|| "a computer".to_owned());
            let text = format!(
                "your server shows changes that {name} wrote after it was unlinked; they are refused"
            );
            self.status.raise(REVOKED_AUTHOR, text, self.clock.now());
        }
    }

    /// Tells that this computer was unlinked.
    pub(super) fn report_revoked(&self) {
        self.status.set_state(SyncState::Revoked, None);
    }

    /// Tells state, age of the proof and how far each app is.
    pub(super) fn report(&self, engine: &Engine, now: Time) {
        let trouble = || self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let link = engine.link(now);
        self.report_buffered(link == Link::Buffered);
        let unlocked = self.vault.unlocked();
        let unlinked = unlocked
            .as_ref()
            .is_some_and(|unlocked| !unlocked.chain.is_active(unlocked.record.device));
        let kit = unlocked.map(|unlocked| unlocked.has_kit());
        let apps = engine.apps();
        let whole = apps.iter().all(|app| engine.is_whole(app));
        let pending = self.status.snapshot().apps.iter().any(|app| app.pending > 0);
        let unread = self.unread();
        let (state, reason) = match link {
            // The chain says it, not only the server.
            _ if unlinked => (SyncState::Revoked, None),
            Link::Unlinked => (
                SyncState::Waiting,
                Some("the server says that this computer was unlinked".to_owned()),
            ),
            Link::Offline(_) => (SyncState::Offline, trouble()),
            Link::Connecting => {
                (SyncState::Syncing, trouble().or_else(|| Some("connecting".to_owned())))
            }
            // What came and cannot be read is not in the rows, however fresh they are.
            Link::Online | Link::Buffered if whole && !pending => (SyncState::Synced, unread),
            // The server says why it does not take what is to be sent, such as a full account.
            Link::Online | Link::Buffered => match self.refusal() {
                Some(refusal) => (SyncState::Waiting, Some(refusal)),
                None => (SyncState::Syncing, trouble()),
            },
        };
        // The oldest of all proofs is what "synced" can stand on; without the list of apps read
        // there is none.
        let proofs = apps.iter().map(|app| engine.proved(app));
        let proved = proofs.chain([engine.account_read()]).min().flatten();
        let wall = self.clock.now();
        let proven_at = proved.map(|at| {
            let age = i64::try_from(now.since(at).as_millis()).unwrap_or(i64::MAX);
            utc(wall.saturating_sub(age))
        });
        self.status.change(|status| {
            // Nothing is said to be synced without a proof.
            status.state = match state {
                SyncState::Synced if proven_at.is_none() => SyncState::Syncing,
                state => state,
            };
            status.reason = reason;
            if proven_at.is_some() {
                status.proven_at = proven_at;
            }
            if kit.is_some() {
                status.recovery_kit = kit;
            }
        });
        for app in &apps {
            let complete = engine.record(app).is_some_and(|record| record.complete);
            self.status.change_app(app, |status| status.complete = complete);
        }
    }

    /// Tells how much of an app lies in quarantine.
    pub(super) fn report_quarantine(&self, app: &AppId, held: Held) {
        self.status.change_app(app, |status| {
            status.quarantined = held.count;
            status.quarantined_at = held.at.iter().map(ToString::to_string).collect();
        });
        match self.unread() {
            Some(text) => self.status.raise(BAD_BLOB, text, self.clock.now()),
            None => self.status.clear(BAD_BLOB),
        }
    }

    /// What lies in quarantine, in words.
    fn unread(&self) -> Option<String> {
        let apps = self.status.snapshot().apps;
        let app = apps.iter().find(|app| app.quarantined > 0)?;
        Some(format!(
            "{} changes of {} came damaged, or need a newer Tidings; they are kept",
            app.quarantined, app.id
        ))
    }

    /// Notes why the server does not take what an app has to send; none once it does.
    pub(super) fn set_refusal(&self, app: &AppId, refusal: Option<String>) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        match refusal {
            Some(refusal) => refusals.insert(app.clone(), refusal),
            None => refusals.remove(app),
        };
    }

    fn refusal(&self) -> Option<String> {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.first_key_value().map(|(app, refusal)| format!("changes of {app}: {refusal}"))
    }

    fn report_buffered(&self, held: bool) {
        let every = self.settings.engine.poll_buffered.as_secs_f32();
        let text = format!(
            "a proxy between here and the server holds its messages back; \
             changes are looked for every {every} s instead"
        );
        self.report_if(BUFFERED, &text, held);
    }

    /// Tells whether the server named a linked computer, or anything else of the device chain, that
    /// none of the linked ones signed.
    pub(super) fn report_chain_invalid(&self, invalid: bool) {
        let text = "your server shows a change of your linked computers that none of them made";
        self.report_if(CHAIN_INVALID, text, invalid);
    }

    /// Tells whether keys of the account are missing here although the chain names them.
    pub(super) fn report_bad_wrap(&self, bad: bool) {
        let text = "your server keeps back a key of your account, or gives a wrong one";
        self.report_if(BAD_WRAP, text, bad);
    }

    fn report_if(&self, code: &str, text: &str, wrong: bool) {
        match wrong {
            true => self.status.raise(code, text, self.clock.now()),
            false => self.status.clear(code),
        }
    }

    /// Tells the alarms as they are now.
    pub(super) fn report_alarms(&self, alarms: &BTreeSet<Alarm>) {
        let mut texts: BTreeMap<&'static str, String> = BTreeMap::new();
        for alarm in alarms {
            texts.entry(code(alarm)).or_insert_with(|| message(alarm));
        }
        for code in CODES {
            match texts.get(code) {
                Some(text) => self.status.raise(code, text.clone(), self.clock.now()),
                None => self.status.clear(code),
            }
        }
    }

    /// Tells which devices stamp their writes far ahead of the time: their rows are taken, and win
    /// over later ones of others until the time has come.
    pub(super) fn report_ahead(&self, unlocked: &Unlocked, ahead: &BTreeMap<DeviceId, u64>) {
        for (device, by) in ahead {
            let name = device_info(unlocked, *device).and_then(|info| info.name);
            let name = name.unwrap_or_else(|| format!("another computer ({device})"));
            let text = format!("the clock of {name} is {} ahead; please set it right", span(*by));
            self.status.raise("clock_ahead", text, self.clock.now());
        }
    }

    /// Tells that this computer's clock differs much from the server's, once.
    pub(super) fn report_clock(&self, offset_ms: i64, now: i64) {
        let tolerance = i64::try_from(self.settings.clock_tolerance.as_millis());
        let differs = offset_ms.unsigned_abs() > tolerance.unwrap_or(i64::MAX).unsigned_abs();
        if differs {
            let ahead = if offset_ms < 0 { "ahead of" } else { "behind" };
            let by = span(offset_ms.unsigned_abs());
            let text = format!("this computer's clock is {by} {ahead} the server's");
            self.status.raise(CLOCK, text, now);
        } else {
            self.status.clear(CLOCK);
        }
    }
}

/// Every code that [`Shared::report_alarms`] may raise.
const CODES: [&str; 7] =
    ["rollback", "withheld", "fork", "app_withheld", "chain_rollback", "chain_fork", "no_progress"];

fn code(alarm: &Alarm) -> &'static str {
    match alarm {
        Alarm::Rollback { .. } => "rollback",
        Alarm::Withheld { .. } | Alarm::ManifestWithheld { .. } => "withheld",
        Alarm::Fork { .. } => "fork",
        Alarm::AppWithheld { .. } => "app_withheld",
        Alarm::ChainRollback => "chain_rollback",
        Alarm::ChainFork => "chain_fork",
        Alarm::NoProgress { .. } => "no_progress",
    }
}

fn message(alarm: &Alarm) -> String {
    match alarm {
        Alarm::Rollback { app, .. } => {
            format!("your server shows less of {app} than it showed before")
        }
        Alarm::Withheld { app, .. } => {
            format!("your server is hiding changes of {app} that another computer wrote")
        }
        Alarm::ManifestWithheld { app, .. } => {
            format!("your server keeps back what another computer last said of {app}")
        }
        Alarm::Fork { app, .. } => {
            format!("your server shows your computers different histories of {app}")
        }
        Alarm::AppWithheld { app } => {
            format!("your server is hiding the app {app} that another computer uses")
        }
        Alarm::ChainRollback => "your server shows fewer linked computers than before".to_owned(),
        Alarm::ChainFork => {
            "your server shows another list of linked computers than this one knows".to_owned()
        }
        Alarm::NoProgress { app } => {
            format!("your server sends the same changes of {app} again and again")
        }
    }
}

/// A span in the largest unit that fits, rounded.
fn span(millis: u64) -> String {
    let seconds = millis.saturating_add(500) / 1_000;
    let rounded = |unit: u64| seconds.saturating_add(unit / 2) / unit;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", rounded(60)),
        7_200..172_800 => format!("{} h", rounded(3_600)),
        _ => format!("{} d", rounded(86_400)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        assert_eq!(span(365 * 86_400_000), "365 d");
        assert_eq!(span(3_600_000), "60 min");
        assert_eq!(span(90_000), "90 s");
        assert_eq!(span(3 * 3_600_000), "3 h");
        assert_eq!(span(365 * 86_400_000 - 20), "365 d");
    }

    #[test]
    fn every_alarm_has_a_listed_code() {
        let app: AppId = "notes".parse().unwrap();
        let replica = tidings_proof::Replica {
            device: tidings_wire::DeviceId([0; 16]),
            incarnation: tidings_wire::Incarnation([0; 8]),
        };
        let lane = tidings_engine::LaneKey { replica, tag: tidings_wire::TableTag([0; 16]) };
        let all = [
            Alarm::Rollback { app: app.clone(), replica },
            Alarm::Withheld { app: app.clone(), lane },
            Alarm::ManifestWithheld { app: app.clone(), replica },
            Alarm::Fork { app: app.clone(), replica },
            Alarm::AppWithheld { app: app.clone() },
            Alarm::ChainRollback,
            Alarm::ChainFork,
            Alarm::NoProgress { app },
        ];
        assert!(all.iter().all(|alarm| CODES.contains(&code(alarm))));
    }
}
