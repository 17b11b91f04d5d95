//! One app: how far it is pulled, what it misses, where its push stands.

use std::collections::{BTreeMap, BTreeSet};

use tidings_proof::{LaneSeq, Replica};
use tidings_wire::{AppId, ManifestNumber, Position, Seq};

use crate::backoff::Backoff;
use crate::book::Book;
use crate::config::EngineConfig;
use crate::facts::{LaneKey, Retried};
use crate::lane::{LaneState, Staged};
use crate::output::{Alarm, Purpose, RenewCause};
use crate::plan::PagePlan;
use crate::push::{BareDue, Push};
use crate::start::{AppRecord, AppStart};
use crate::time::Time;

/// Where the pull of an app stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pull {
    Idle,
    /// Asked, with this ticket.
    Asked(u64, Purpose),
    /// The answer is being stored.
    Storing(u64),
    /// What lies in quarantine is tried again: that changes lanes as a page does.
    Retrying(Retry),
}

/// Why to try again to open what lies in quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Retry {
    /// The engine has just started: the last try may have been cut off.
    Started,
    /// The chain or the keys have grown.
    Grown,
}

/// A refetch that goes on over several pages.
#[derive(Debug, Clone)]
pub(crate) struct Refetch {
    pub(crate) lane: LaneKey,
    pub(crate) cursor: Vec<u8>,
    progress: Progress,
}

/// Whether pages move on.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    last: Option<(Position, u32)>,
    stuck: u8,
}

impl Progress {
    /// Notes where a page ended; false once two in a row did not move on.
    fn moved(&mut self, to: (Position, u32)) -> bool {
        let rises = self.last.is_none_or(|last| last < to);
        self.stuck = if rises { 0 } else { self.stuck.saturating_add(1) };
        self.last = Some(to);
        self.stuck < 2
    }

    /// Notes that it begins anew somewhere else, which is no progress.
    fn restarted(&mut self) -> bool {
        self.stuck = self.stuck.saturating_add(1);
        self.last = None;
        self.stuck < 2
    }
}

/// Everything known of one app.
#[derive(Debug, Clone)]
pub(crate) struct AppSync {
    pub(crate) app: AppId,
    pub(crate) record: AppRecord,
    pub(crate) lanes: BTreeMap<LaneKey, LaneState>,
    pub(crate) staged: Staged,
    pub(crate) unplaced: BTreeMap<Position, u32>,
    pub(crate) book: Book,

    pub(crate) pull: Pull,
    pub(crate) pull_backoff: Backoff,
    /// A pull is wanted.
    pub(crate) due: bool,
    /// A hint came while a pull was in flight.
    pub(crate) again: bool,
    /// The last answer named a chain head or an epoch that is not known: wait for the account.
    pub(crate) wants_account: bool,
    /// The account was read since; go on whatever the answer names.
    pub(crate) account_read: bool,
    progress: Progress,
    waiting: BTreeMap<LaneKey, Waiting>,
    pub(crate) refetch: Option<Refetch>,
    /// What lies in quarantine is to be tried again.
    pub(crate) retry: Option<Retry>,
    /// Lanes with blobs in quarantine that may open now, but of which no bytes were kept.
    lacking: BTreeSet<LaneKey>,

    pub(crate) push: Push,
    pub(crate) push_ticket: u64,
    pub(crate) push_backoff: Backoff,
    /// The outbox holds writes that are not frozen.
    pub(crate) outbox: bool,
    /// Something was written since the order was given whose answer tells what the outbox holds:
    /// that answer may be older.
    pub(crate) written: bool,
    pub(crate) bare: BareDue,

    /// Number of the own manifest that the server held when the pull in flight was ordered.
    pub(crate) acked_when_asked: ManifestNumber,
    alarms: BTreeSet<Alarm>,
    /// Apps that manifests name and the server's list lacked; whether it still did afterwards.
    missing: BTreeMap<AppId, bool>,
    forks: BTreeSet<Alarm>,
    stalled: bool,
    /// When the pages last reached the server's head.
    pub(crate) proved: Option<Time>,
}

/// A lane that misses a blob.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    tries: usize,
    next: Option<Time>,
}

/// What follows once a page is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Follow {
    pub(crate) renew: Option<(RenewCause, bool)>,
    /// Manifests name apps that the server's list lacks: read it again.
    pub(crate) missing_apps: bool,
}

impl AppSync {
    pub(crate) fn new(start: AppStart, now: Time, config: &EngineConfig) -> Self {
        let mut staged = Staged::default();
        for fact in start.staged {
            staged.insert(fact.blob, fact.position);
        }
        let mut book = Book::new(start.app.clone(), start.manifests, start.floors);
        (book.own_n, book.own_acked) = (start.own_n, start.own_acked);
        let mut bare = BareDue::default();
        if start.own_n.0 > 0 {
            bare.set(now.after(config.manifest_every));
        }
        let quarantined =
            !start.unplaced.is_empty() || start.lanes.values().any(|lane| !lane.gaps.is_empty());
        let mut app = Self {
            app: start.app,
            record: start.record,
            lanes: start.lanes,
            staged,
            unplaced: start.unplaced,
            book,
            pull: Pull::Idle,
            pull_backoff: Backoff::default(),
            due: true,
            again: false,
            wants_account: false,
            account_read: false,
            progress: Progress::default(),
            waiting: BTreeMap::new(),
            refetch: None,
            retry: quarantined.then_some(Retry::Started),
            lacking: BTreeSet::new(),
            push: if start.frozen { Push::Ready } else { Push::Idle },
            push_ticket: 0,
            push_backoff: Backoff::default(),
            outbox: start.outbox,
            written: false,
            bare,
            acked_when_asked: ManifestNumber(0),
            alarms: BTreeSet::new(),
            missing: BTreeMap::new(),
            forks: BTreeSet::new(),
            stalled: false,
            proved: None,
        };
        app.note_waiting(now, None);
        app
    }

    /// An answer tells whether the outbox holds writes that are not frozen.
    pub(crate) fn left(&mut self, outbox: bool) {
        self.outbox = std::mem::take(&mut self.written) || outbox;
    }

    /// A pull is wanted; one in flight is followed by one more.
    pub(crate) fn want_pull(&mut self) {
        self.stalled = false;
        if self.pull == Pull::Idle {
            self.due = true;
        } else {
            self.again = true;
        }
    }

    /// Which pull to order now, if any.
    pub(crate) fn next_pull(&self, now: Time) -> Option<Purpose> {
        if self.pull != Pull::Idle || self.wants_account || !self.pull_backoff.ready(now) {
            return None;
        }
        if self.due {
            return Some(Purpose::Next);
        }
        if let Some(refetch) = &self.refetch {
            return Some(Purpose::Refetch(refetch.lane));
        }
        if let Some(lane) = self.lacking.first() {
            return Some(Purpose::Refetch(*lane));
        }
        let ready = |waiting: &Waiting| waiting.next.is_some_and(|next| next <= now);
        let lane = self.waiting.iter().find(|(_, waiting)| ready(waiting));
        lane.map(|(key, _)| Purpose::Refetch(*key))
    }

    /// The earliest moment at which something becomes due by itself.
    pub(crate) fn deadline(&self, now: Time) -> Option<Time> {
        let pull = (self.pull == Pull::Idle && !self.wants_account)
            .then(|| {
                let refetch = self.waiting.values().filter_map(|waiting| waiting.next).min();
                let lacking = self.retry.is_some() || !self.lacking.is_empty();
                let going = self.due || lacking || self.refetch.is_some();
                let due = if going { Some(now) } else { refetch };
                due.max(due.and(self.pull_backoff.until(now)))
            })
            .flatten();
        let wanted = match self.push {
            Push::Idle if self.outbox => Some(now),
            Push::Idle => self.bare.at(),
            Push::Ready => Some(now),
            _ => None,
        };
        let push = wanted.max(wanted.and(self.push_backoff.until(now)));
        [pull, push].into_iter().flatten().min()
    }

    /// Takes over what was stored of a page.
    pub(crate) fn stored(
        &mut self,
        now: Time,
        config: &EngineConfig,
        own: Replica,
        apps: &BTreeSet<AppId>,
        plan: PagePlan,
    ) -> Follow {
        self.pull = Pull::Idle;
        self.account_read = false;
        self.pull_backoff.clear();
        self.lanes.extend(plan.lanes);
        for (lane, seq) in &plan.unstage {
            self.staged.remove(*lane, *seq);
        }
        for (blob, position) in plan.staged {
            self.staged.insert(blob, position);
        }
        self.unplaced = plan.unplaced;
        self.forks.extend(plan.alarms);
        let manifests_came = !plan.accepted.is_empty();
        for fact in plan.accepted {
            self.book.accept(fact);
        }
        self.book.own_signed = self.book.own_signed.max(plan.own_signed);
        if plan.others {
            self.bare.by(now.after(config.manifest_after_blobs));
        }
        match plan.purpose {
            Purpose::Next => {
                self.record = plan.record;
                if plan.was_reset {
                    self.waiting.clear();
                    self.refetch = None;
                    let goes_on = self.progress.restarted();
                    self.go_on(goes_on);
                    return Follow::default();
                }
                self.book.show(plan.shown);
                if plan.has_more {
                    let goes_on = self.progress.moved(plan.progress);
                    self.go_on(goes_on);
                    return Follow::default();
                }
                self.reached_head(now, own, apps, manifests_came)
            }
            Purpose::Refetch(lane) => {
                let more = plan.has_more && self.is_lacking(&lane) && !plan.cursor.is_empty();
                let known = self.refetch.take().filter(|refetch| refetch.lane == lane);
                let mut progress = known.map(|refetch| refetch.progress).unwrap_or_default();
                let moves_on = progress.moved(plan.progress);
                self.stalled |= more && !moves_on;
                if more && moves_on {
                    self.refetch = Some(Refetch { lane, cursor: plan.cursor, progress });
                } else {
                    self.lacking.remove(&lane);
                    self.tried(now, config, lane);
                    self.note_waiting(now, Some(own));
                }
                self.due |= std::mem::take(&mut self.again);
                Follow::default()
            }
        }
    }

    /// More follows: pull on while position and part rise; two pages that do not end the loop.
    fn go_on(&mut self, goes_on: bool) {
        (self.due, self.stalled) = (goes_on, !goes_on);
        if self.stalled {
            // Only a hint, a reconnect or the poll tries again.
            (self.progress, self.again) = (Progress::default(), false);
        }
    }

    /// What lay in quarantine was tried again; none if the store did not let it.
    pub(crate) fn retried(&mut self, retried: Option<Retried>) {
        let opened = retried.iter().flat_map(|retried| &retried.opened);
        for (lane, seq) in opened {
            if let Some(lane) = self.lanes.get_mut(lane) {
                lane.gaps.remove(seq);
            }
        }
        // A new incarnation in between tries again by itself.
        let Pull::Retrying(cause) = self.pull else { return };
        self.pull = Pull::Idle;
        self.due |= std::mem::take(&mut self.again);
        let Some(retried) = retried else {
            self.retry = self.retry.max(Some(cause));
            return;
        };
        // Only if something has grown can what is fetched again open.
        if cause == Retry::Grown || !retried.opened.is_empty() {
            self.lacking.extend(retried.lacking);
        }
    }

    fn reached_head(
        &mut self,
        now: Time,
        own: Replica,
        apps: &BTreeSet<AppId>,
        manifests_came: bool,
    ) -> Follow {
        self.due = std::mem::take(&mut self.again);
        (self.progress, self.stalled) = (Progress::default(), false);
        self.proved = Some(now);
        let verdict = self.book.judge(own, self.acked_when_asked, &self.record.lost, apps);
        for replica in &verdict.level {
            self.record.lost.remove(replica);
        }
        self.alarms = verdict.alarms;
        if manifests_came && !verdict.not_given.is_empty() {
            // One answer holds only so many manifests; those of the next are others.
            self.due = true;
        } else {
            let app = &self.app;
            let alarm = |replica| Alarm::ManifestWithheld { app: app.clone(), replica };
            self.alarms.extend(verdict.not_given.into_iter().map(alarm));
        }
        let known = std::mem::take(&mut self.missing);
        self.missing = verdict
            .missing_apps
            .into_iter()
            .map(|app| {
                let confirmed = known.get(&app).copied().unwrap_or(false);
                (app, confirmed)
            })
            .collect();
        let missing_apps = self.missing.values().any(|confirmed| !confirmed);
        self.note_waiting(now, Some(own));
        if verdict.own_newer {
            return Follow { renew: Some((RenewCause::Copied, false)), missing_apps };
        }
        if std::mem::take(&mut self.record.refill) && verdict.short {
            return Follow { renew: Some((RenewCause::ServerLost, true)), missing_apps };
        }
        let renew = verdict.own_dropped.then_some((RenewCause::Dropped, true));
        Follow { renew, missing_apps }
    }

    /// Notes the server's list of apps, read since manifests named one that it lacked.
    pub(crate) fn confirm_missing(&mut self, apps: &BTreeSet<AppId>) {
        self.missing.retain(|app, _| !apps.contains(app));
        self.missing.values_mut().for_each(|confirmed| *confirmed = true);
    }

    /// Pulls from the beginning: what is applied stays, and pulling it again changes nothing.
    pub(crate) fn forget_cursor(&mut self) {
        self.record.cursor = None;
        (self.refetch, self.progress) = (None, Progress::default());
    }

    /// Whether there is more to fetch for a lane: what is missing, or what lies in quarantine
    /// without its bytes.
    fn is_lacking(&self, key: &LaneKey) -> bool {
        let gaps = || self.lanes.get(key).is_some_and(|lane| !lane.gaps.is_empty());
        self.is_short(key) || self.lacking.contains(key) && gaps()
    }

    /// Whether blobs of a lane are missing: something waits behind a hole, or its author states
    /// a head beyond it.
    fn is_short(&self, key: &LaneKey) -> bool {
        let seq = self.lanes.get(key).map_or(Seq(0), |lane| lane.seq);
        let stated = self.book.stated_head(key.replica, &key.tag);
        self.staged.after(*key, None).is_some() || stated.is_some_and(|head| head.seq > seq)
    }

    /// Notes which lanes wait. `own` is none at the start, when only what is staged is sure to.
    fn note_waiting(&mut self, now: Time, own: Option<Replica>) {
        let mut short = self.staged.lanes();
        if let Some(own) = own {
            for (key, head) in self.book.stated_heads(own) {
                let lane = self.lanes.get(&key);
                if lane.map_or(Seq(0), |lane| lane.seq) < head.seq {
                    short.insert(key);
                } else if lane.is_some_and(|lane| {
                    lane.seq == head.seq && lane.hash.is_some_and(|hash| hash != head.hash)
                }) {
                    let (app, replica) = (self.app.clone(), key.replica);
                    self.forks.insert(Alarm::Fork { app, replica });
                }
            }
        }
        self.waiting.retain(|key, _| short.contains(key));
        for key in short {
            self.waiting.entry(key).or_insert(Waiting { tries: 0, next: Some(now) });
        }
    }

    /// Notes a fruitless try to fetch what a lane misses.
    fn tried(&mut self, now: Time, config: &EngineConfig, lane: LaneKey) {
        if let Some(waiting) = self.waiting.get_mut(&lane) {
            waiting.next = config.refetch.get(waiting.tries).map(|wait| now.after(*wait));
            waiting.tries = waiting.tries.saturating_add(1);
        }
    }

    /// Lanes that count as withheld are tried again with every poll.
    pub(crate) fn retry_withheld(&mut self, now: Time) {
        for waiting in self.waiting.values_mut() {
            waiting.next.get_or_insert(now);
        }
    }

    /// What the person must learn of this app.
    pub(crate) fn alarms(&self, config: &EngineConfig) -> BTreeSet<Alarm> {
        let mut alarms: BTreeSet<Alarm> = self.alarms.union(&self.forks).cloned().collect();
        for (lane, waiting) in &self.waiting {
            let admitted = self.record.lost.contains(&lane.replica);
            if waiting.tries > config.refetch.len() && !admitted {
                alarms.insert(Alarm::Withheld { app: self.app.clone(), lane: *lane });
            }
        }
        for (app, _) in self.missing.iter().filter(|(_, confirmed)| **confirmed) {
            alarms.insert(Alarm::AppWithheld { app: app.clone() });
        }
        if self.book.forks_chain() {
            alarms.insert(Alarm::ChainFork);
        }
        if self.stalled {
            alarms.insert(Alarm::NoProgress { app: self.app.clone() });
        }
        alarms
    }

    /// Blobs that this device misses or could not open, at most `most`.
    pub(crate) fn wants(&self, most: usize) -> BTreeSet<LaneSeq> {
        let gaps = self.lanes.iter().flat_map(|(key, lane)| {
            lane.gaps.iter().map(|seq| LaneSeq { replica: key.replica, tag: key.tag, seq: *seq })
        });
        let missing = self.waiting.keys().filter_map(|key| {
            let seq = self.lanes.get(key).map_or(Seq(0), |lane| lane.seq);
            let next = Seq(seq.0.checked_add(1)?);
            Some(LaneSeq { replica: key.replica, tag: key.tag, seq: next })
        });
        gaps.chain(missing).take(most).collect()
    }

    /// Everything that the server showed is here, and nothing is known to be missing.
    pub(crate) fn is_whole(&self) -> bool {
        let fetched = self.waiting.is_empty() && self.lacking.is_empty() && self.retry.is_none();
        self.record.complete && fetched && !self.due && self.pull == Pull::Idle
    }
}
