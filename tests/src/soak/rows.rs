//! Rows that one device writes, and what it was promised about each.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidings_client::local::{Client, LocalError};
use tidings_disk::{noise, pick};
use tidings_wire::AppId;
use tidings_wire::local::Record;
use tokio_util::sync::CancellationToken;

use super::Tally;
use crate::hand::encode;

/// The rows of one writer. Nobody else writes them, so each is in a state that is known: the last
/// that was acknowledged, or that of a later write that died unanswered.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    prefix: String,
    seed: u64,
    writes: u64,
    known: BTreeMap<String, Value>,
    unanswered: Vec<(String, Option<Value>)>,
}

/// Rows of one writer at most.
const ROWS: u64 = 12;

impl Rows {
    pub(crate) fn new(prefix: &str, seed: u64) -> Self {
        let known = BTreeMap::new();
        Self { prefix: prefix.to_owned(), seed, writes: 0, known, unanswered: Vec::new() }
    }

    /// Writes until it is told to stop or the daemon is gone. A refusal is an error.
    pub(crate) async fn write(
        &mut self,
        client: &Client,
        app: &AppId,
        stop: &CancellationToken,
        tally: &mut Tally,
    ) -> Result<(), String> {
        while !stop.is_cancelled() {
            match self.write_one(client, app).await {
                Ok(()) => tally.writes += 1,
                Err(error @ LocalError::Problem { .. }) if !stop.is_cancelled() => {
                    return Err(format!("a write was refused: {error}"));
                }
                Err(_) => {
                    tally.unanswered += 1;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Writes or deletes one row.
    pub(crate) async fn write_one(
        &mut self,
        client: &Client,
        app: &AppId,
    ) -> Result<(), LocalError> {
        self.writes += 1;
        let seed = self.seed ^ self.writes.rotate_left(24);
        let id = format!("{}-{:02}", self.prefix, pick(seed, ROWS));
        let sure = self.unanswered.iter().all(|(other, _)| *other != id);
        let delete = pick(seed + 1, 8) == 0 && sure && self.known.contains_key(&id);
        let row = (!delete).then(|| self.row(&id, seed));
        self.unanswered.push((id.clone(), row.clone()));
        match &row {
            Some(row) => client.put(app, TABLE, &id, row, None).await.map(drop)?,
            None => client.delete(app, TABLE, &id, None).await.map(drop)?,
        }
        // Whatever became of earlier ones, this one came later.
        self.unanswered.retain(|(other, _)| *other != id);
        self.take(id, row);
        Ok(())
    }

    /// Mostly short, now and then of many pages.
    fn row(&self, id: &str, seed: u64) -> Value {
        let length = match pick(seed + 2, 20) {
            0 => pick(seed + 3, 12_000),
            _ => pick(seed + 3, 500),
        };
        let fill = noise(seed, usize::try_from(length).unwrap_or(0));
        json!({ "id": id, "n": self.writes, "fill": encode(&fill) })
    }

    fn take(&mut self, id: String, row: Option<Value>) {
        match row {
            Some(row) => self.known.insert(id, row),
            None => self.known.remove(&id),
        };
    }

    /// Compares what the own device shows after it came back: each row as acknowledged, but for
    /// those that died unanswered, which may be old or new, never a third.
    pub(crate) fn settle(&mut self, shown: &[Record], tally: &mut Tally) -> Result<(), String> {
        let mut shown = by_id(shown);
        shown.retain(|id, _| id.starts_with(&self.prefix));
        for (id, row) in std::mem::take(&mut self.unanswered) {
            if shown.get(&id) == row.as_ref() {
                self.take(id, row);
            }
        }
        tally.checked += self.known.len() as u64;
        self.differs(&shown).map_or(Ok(()), Err)
    }

    /// The rows as they have to be everywhere.
    pub(crate) fn known(&self) -> &BTreeMap<String, Value> {
        &self.known
    }

    fn differs(&self, shown: &BTreeMap<String, Value>) -> Option<String> {
        let mut ids = self.known.keys().chain(shown.keys());
        let wrong = ids.find(|id| self.known.get(*id) != shown.get(*id))?;
        let brief = |row: Option<&Value>| match row {
            Some(row) => format!("write {} of it", row["n"]),
            None => "no row".to_owned(),
        };
        let (known, shown) = (brief(self.known.get(wrong)), brief(shown.get(wrong)));
        Some(format!("{wrong}: {known} was acknowledged, {shown} is there"))
    }
}

/// Rows by their ids.
pub(crate) fn by_id(rows: &[Record]) -> BTreeMap<String, Value> {
    let id = |row: &Record| row.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    rows.iter().map(|row| (id(row), Value::Object(row.clone()))).collect()
}

/// The table that is written.
pub(crate) const TABLE: &str = "t";
