//! Sending rows to the daemon in parts, with a bar for whoever watches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidings_client::local::LocalError;
use tidings_wire::AppId;

use super::row::{Row, Tables};
use crate::cli::connect::Local;
use crate::cli::failure::Failure;

/// Most rows of a part: the daemon stores as many in one transaction and names each of them.
const PART_ROWS: usize = 1_000;
/// Most bytes of a part.
const PART_BYTES: usize = 768 << 10;

/// Sends all rows, saying after each part how many are stored.
///
/// # Errors
/// The daemon stopped part of the way; the failure says how far it came.
pub async fn send(
    local: &Local,
    app: &AppId,
    tables: &Tables,
    mut stored: impl FnMut(u64),
) -> Result<(), Failure> {
    let total = tables.rows();
    let mut done = 0;
    for table in tables.as_slice() {
        for part in parts(&table.rows) {
            let mut body = String::with_capacity(PART_BYTES);
            for row in part {
                body.push_str(&row.json);
                body.push('\n');
            }
            let sent = local.client.import_ndjson(app, table.name.as_str(), body.into()).await;
            match sent {
                Ok(answer) => done += answer.rows,
                Err(error) => {
                    let (stored, line) = stopped_at(&error);
                    let row = line.and_then(|line| part.get(line.checked_sub(1)?));
                    let place =
                        row.map(|row| format!("{} of table {:?}", row.place, table.name.as_str()));
                    let cause = local.failure(error);
                    return Err(Failure::import_stopped(done + stored, total, place, &cause));
                }
            }
            stored(done);
        }
    }
    Ok(())
}

/// How many rows of a part the daemon stored, and in which line it stopped.
fn stopped_at(error: &LocalError) -> (u64, Option<usize>) {
    let LocalError::Problem { problem, .. } = error else { return (0, None) };
    let number = |name: &str| problem.details.as_ref()?.get(name)?.as_u64();
    let line = number("line").and_then(|line| usize::try_from(line).ok());
    (number("rows").unwrap_or(0), line)
}

/// Cuts rows into parts within both limits.
fn parts(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fit = rest.iter().take(PART_ROWS).take_while(|row| {
            bytes += row.json.len() + 1;
            bytes <= PART_BYTES
        });
        // One row always fits: a row is smaller than a part.
        let count = fit.count().clamp(1, rest.len().max(1));
        let (part, after) = rest.split_at_checked(count)?;
        rest = after;
        Some(part)
    })
}

/// A bar on a terminal, nothing elsewhere.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for so many rows.
    pub fn new(total: u64, watched: bool) -> Self {
        let bar = ProgressBar::new(total);
        bar.set_draw_target(match watched {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        });
        let style =
            ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} rows, {eta} left");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// So many rows are stored.
    pub fn set(&self, rows: u64) {
        self.0.set_position(rows);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::import::Place;
    use tidings_wire::{Code, Problem};

    fn row(bytes: usize) -> Row {
        Row { id: "x".into(), json: "x".repeat(bytes), place: Place { row: 1, line: 1 } }
    }

    #[test]
    fn parts_hold_every_row_once_and_stay_within_both_limits() {
        let mut rows = vec![row(10); 2_500];
        rows.extend(vec![row(300 << 10); 5]);
        let cut: Vec<_> = parts(&rows).map(<[Row]>::len).collect();
        assert_eq!(cut, [1000, 1000, 502, 2, 1]);
        assert_eq!(parts(&[]).count(), 0);
    }

    #[test]
    fn a_refusal_says_where_it_stopped() {
        let problem = Problem::new(Code::RowInvalid, "no")
            .with_details(serde_json::json!({ "line": 7, "rows": 3 }));
        let refused = LocalError::Problem { status: 400, problem: Box::new(problem) };
        assert_eq!(stopped_at(&refused), (3, Some(7)));
        assert_eq!(stopped_at(&LocalError::Timeout), (0, None));
    }
}
