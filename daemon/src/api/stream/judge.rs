//! What a stream says of an entry of the log.

use tidings_tables::{Object, RowId};
use tidings_wire::local::{
    Change, ChangeKind, Leave, LogPosition, Resync, ResyncReason, Transition,
};
use tidings_wire::sse::{Frame, FrameError};

use super::{Profile, Shown};
use crate::clock;
use crate::replica::{Entry, Event, Image};

/// A frame, but for whether it is the last of its transaction that the stream shows.
#[derive(Debug)]
pub struct Judged {
    /// Its place in the log.
    pub position: LogPosition,
    /// Its transaction.
    pub tx: LogPosition,
    /// What it says.
    pub said: Said,
}

/// What a frame says.
#[derive(Debug)]
pub enum Said {
    /// A row changed.
    Change(Box<Change<Object>>),
    /// A row no longer passes the filter.
    Leave(Leave),
    /// Read the table anew.
    Resync(Resync),
}

impl Shown {
    /// What the stream says of an entry, if it says anything. `now` is the row as it is now, for
    /// the profile that shows that.
    pub fn judge(&self, entry: Entry, now: Option<Image>) -> Option<Judged> {
        if self.tables.as_ref().is_some_and(|tables| !tables.contains(&entry.table)) {
            return None;
        }
        let (position, tx) = (entry.position, entry.tx);
        let said = match entry.event {
            Event::Bulk => Said::Resync(Resync {
                reason: ResyncReason::BulkChange,
                table: Some(entry.table.as_str().to_owned()),
                last_replayed: None,
                head: None,
                oldest: None,
            }),
            Event::Row { kind, row, old, new } => {
                if self.row.as_ref().is_some_and(|only| *only != row) || !self.kinds.contains(&kind)
                {
                    return None;
                }
                let old = old.map(|image| image.into_record(&row));
                let was = old.as_ref().is_some_and(|record| self.filter.matches(record));
                let new = match (kind, self.profile) {
                    (ChangeKind::Delete, _) => None,
                    (_, Profile::Stream) => new,
                    // Gone by now: its delete follows.
                    (_, Profile::Subscribe) => Some(now.filter(|image| !image.is_soft_deleted())?),
                };
                let new = new.map(|image| image.into_record(&row));
                let is = new.as_ref().is_some_and(|record| self.filter.matches(record));
                let shown = if kind == ChangeKind::Delete { was } else { is };
                if !shown {
                    let left = kind == ChangeKind::Update && was;
                    return left.then(|| Judged {
                        position,
                        tx,
                        said: Said::Leave(Leave {
                            table: entry.table.as_str().to_owned(),
                            row_id: row.as_str().to_owned(),
                            reason: "filtered-out".to_owned(),
                            tx,
                            tx_last: false,
                        }),
                    });
                }
                let transition = (kind == ChangeKind::Update).then_some(if was {
                    Transition::Stay
                } else {
                    Transition::Enter
                });
                Said::Change(Box::new(Change {
                    id: position,
                    kind,
                    table: entry.table.as_str().to_owned(),
                    row_id: row.as_str().to_owned(),
                    record: new.map(|record| self.project(record)),
                    old_record: old.filter(|_| self.old && was).map(|record| self.project(record)),
                    at: clock::utc(entry.at),
                    tx,
                    tx_last: false,
                    origin: entry.origin,
                    transition,
                }))
            }
        };
        Some(Judged { position, tx, said })
    }

    /// Whether the stream has to know the row as it is now.
    pub fn rereads(&self, entry: &Entry) -> Option<RowId> {
        match &entry.event {
            Event::Row { kind: ChangeKind::Insert | ChangeKind::Update, row, .. }
                if self.profile == Profile::Subscribe =>
            {
                Some(row.clone())
            }
            _ => None,
        }
    }

    fn project(&self, record: Object) -> Object {
        match &self.fields {
            Some(fields) => fields.apply(record),
            None => record,
        }
    }
}

impl Judged {
    /// Adds the frame.
    pub fn write(self, profile: Profile, last: bool, frame: Frame) -> Result<Frame, FrameError> {
        let id = self.position.to_string();
        match self.said {
            Said::Change(mut change) => {
                change.tx_last = last;
                let name = (profile == Profile::Stream).then(|| change.kind.as_str());
                frame.json(name, Some(&id), &change)
            }
            Said::Leave(mut leave) => {
                leave.tx_last = last;
                frame.json(Some("leave"), Some(&id), &leave)
            }
            Said::Resync(resync) => frame.json(Some("resync"), Some(&id), &resync),
        }
    }
}
