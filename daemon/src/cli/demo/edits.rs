//! How long a single-row edit takes from the write on one device to the event on the other.

use std::time::{Duration, Instant};

use serde_json::json;
use tidings_client::local::{EventStream, WatchOptions};
use tidings_wire::AppId;
use tidings_wire::local::Change;

use crate::cli::connect::Local;
use crate::cli::failure::Failure;

/// How long one edit may take before the demo gives up.
const DEADLINE: Duration = Duration::from_secs(30);

/// Follows a table until a change of one row arrives that the caller waits for.
#[derive(Debug)]
pub struct Follower {
    stream: EventStream,
}

impl Follower {
    /// Follows all tables of an app from now on.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub async fn start(local: &Local, app: &AppId) -> Result<Self, Failure> {
        let options = WatchOptions::default();
        let mut stream = local.ask(local.client.watch(app, &[], &options)).await?;
        // The first event says that it is connected: nothing written later can be missed.
        tokio::time::timeout(DEADLINE, stream.next())
            .await
            .map_err(|_| Failure::unexpected("a stream did not begin"))?
            .map_err(|error| local.failure(error))?;
        Ok(Self { stream })
    }

    /// Waits for the change of a row that satisfies `wanted`.
    ///
    /// # Errors
    /// It does not come in time.
    pub async fn wait(&mut self, wanted: impl Fn(&Change) -> bool) -> Result<Change, Failure> {
        let find = async {
            loop {
                let event = self.stream.next().await.map_err(Failure::unexpected)?;
                let event = event.ok_or_else(|| Failure::unexpected("a stream ended"))?;
                if let Ok(change) = serde_json::from_str::<Change>(&event.data)
                    && wanted(&change)
                {
                    return Ok(change);
                }
            }
        };
        tokio::time::timeout(DEADLINE, find)
            .await
            .map_err(|_| Failure::unexpected("an edit did not arrive on the other device"))?
    }
}

/// Edits a row again and again on one device and measures until the other's stream shows it.
///
/// # Errors
/// An edit is refused or does not arrive.
pub async fn measure(
    writer: &Local,
    reader: &Local,
    app: &AppId,
    (table, id): (&str, &str),
    count: usize,
) -> Result<Vec<Duration>, Failure> {
    let mut follower = Follower::start(reader, app).await?;
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let patch = json!({ "edit": number });
        let started = Instant::now();
        writer.ask(writer.client.merge_patch(app, table, id, &patch, None)).await?;
        let edited = |change: &Change| {
            let record = change.record.as_ref();
            change.row_id == id
                && record.and_then(|record| record.get("edit")) == Some(&json!(number))
        };
        follower.wait(edited).await?;
        times.push(started.elapsed());
    }
    // The rows are compared with the file afterwards: nothing of the measuring stays in them.
    let patch = json!({ "edit": null });
    writer.ask(writer.client.merge_patch(app, table, id, &patch, None)).await?;
    follower
        .wait(|change| {
            let record = change.record.as_ref();
            change.row_id == id && record.is_some_and(|record| !record.contains_key("edit"))
        })
        .await?;
    Ok(times)
}

/// The time that so many percent of the edits stayed below, in milliseconds: nearest rank.
pub fn percentile(times: &[Duration], percent: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
    let time = times.get(rank).copied().unwrap_or_default();
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), 100.0);
        assert_eq!(percentile(&times, 99), 198.0);
        assert_eq!(percentile(&times[..1], 99), 1.0);
        assert_eq!(percentile(&[], 99), 0.0);
    }
}
