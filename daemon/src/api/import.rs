//! `POST …/tables/T/import`: any number of rows, one JSON object per line, stored as they come.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use tidings_tables::{Input, TableName};
use tidings_wire::limits;
use tidings_wire::local::{ImportAnswer, LogPosition};

use super::Api;
use super::body::{self, NDJSON};
use super::error::{ApiError, Code};
use super::gate::{Access, Caller, Need};
use super::names::TablePath;
use super::params::Params;
use super::rows;
use crate::replica::{Operation, Verb, query};

/// Most rows of one transaction: each is named in the log.
const ROWS: usize = 1_000;
/// Bytes of text at which a transaction takes no more rows.
const BYTES: usize = 2 << 20;
/// Longest line: a row whose every character is escaped.
const LINE: usize = limits::LOCAL_REQUEST;

/// Handles an import. Each transaction is durable before the next is read, so a client that sends
/// faster than the disk writes is slowed down. A line that is refused ends the import; what was
/// stored before it stays, and the answer says how much.
pub async fn import(
    State(api): State<Api>,
    caller: Caller,
    path: TablePath,
    params: Params,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    params.finish()?;
    let access = api.gate().access(&caller, &path.app, &[&path.table], Need::Write)?;
    body::media_type(&headers, &[NDJSON, "application/ndjson", "application/jsonl"])?;
    let mut import = Import::new(access, path.table);
    let mut lines = Lines::default();
    let mut body = body;
    let ended = async {
        while let Some(piece) = body::next(&mut body, api.config().body_idle).await? {
            lines.feed(&piece);
            while let Some(line) = lines.next()? {
                import.line(&line).await?;
            }
        }
        if let Some(line) = lines.rest() {
            import.line(&line).await?;
        }
        import.flush().await
    }
    .await;
    match ended {
        Ok(()) => {
            let position = match import.position {
                Some(position) => position,
                None => import.access.read(query::position).await?,
            };
            let answer = ImportAnswer { rows: import.stored, position };
            Ok(rows::answer(StatusCode::OK, &answer, position, None))
        }
        Err(error) => {
            let details = json!({ "line": import.line, "rows": import.stored });
            Err(error.details(details))
        }
    }
}

struct Import {
    access: Access,
    table: TableName,
    waiting: Vec<Operation>,
    bytes: usize,
    /// Lines read so far.
    line: u64,
    /// Rows stored so far.
    stored: u64,
    position: Option<LogPosition>,
}

impl Import {
    fn new(access: Access, table: TableName) -> Self {
        Self { access, table, waiting: Vec::new(), bytes: 0, line: 0, stored: 0, position: None }
    }

    async fn line(&mut self, line: &[u8]) -> Result<(), ApiError> {
        self.line += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let input = Input::new(body::parse(line)?)?;
        let id = match input.id {
            Some(id) => id,
            None => self.access.new_row_id()?,
        };
        self.bytes += line.len();
        self.waiting.push(Operation {
            table: self.table.clone(),
            id,
            verb: Verb::Put(input.columns),
            condition: None,
        });
        if self.waiting.len() >= ROWS || self.bytes >= BYTES { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), ApiError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let operations = std::mem::take(&mut self.waiting);
        let rows = operations.len() as u64;
        self.bytes = 0;
        let written = self.access.write(operations, true, None).await?;
        self.stored += rows;
        self.position = Some(written.position);
        Ok(())
    }
}

/// Cuts a body into lines without ever holding more than one and the last piece.
#[derive(Default)]
struct Lines {
    held: Vec<u8>,
    /// Where the next line begins in what is held.
    start: usize,
    /// Up to where no line end was found.
    searched: usize,
}

impl Lines {
    fn feed(&mut self, piece: &Bytes) {
        self.held.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        body::append(&mut self.held, piece, LINE + piece.len());
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        let unsearched = self.held.get(self.searched..).unwrap_or_default();
        let Some(end) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.held.len();
            if self.searched - self.start > LINE {
                let message = format!("a line may have {LINE} bytes");
                return Err(ApiError::new(Code::TooLarge, message));
            }
            return Ok(None);
        };
        let end = self.searched + end;
        let line = self.held.get(self.start..end).unwrap_or_default().to_vec();
        self.start = end + 1;
        self.searched = self.start;
        Ok(Some(line))
    }

    fn rest(&mut self) -> Option<Vec<u8>> {
        let rest = self.held.get(self.start..).unwrap_or_default().to_vec();
        (!rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_for_every_cut() {
        let text = b"one\n\ntwo\r\nthree";
        for cut in 0..=text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for piece in [&text[..cut], &text[cut..]] {
                lines.feed(&Bytes::copy_from_slice(piece));
                while let Some(line) = lines.next().unwrap() {
                    found.push(line);
                }
            }
            found.extend(lines.rest());
            assert_eq!(found, [&b"one"[..], b"", b"two\r", b"three"], "cut at {cut}");
        }
    }

    #[test]
    fn an_endless_line_is_refused_while_it_comes() {
        let mut lines = Lines::default();
        let piece = Bytes::from(vec![b'x'; 64 << 10]);
        let refused = (0..).find(|_| {
            lines.feed(&piece);
            lines.next().is_err()
        });
        assert_eq!(refused, Some(LINE / piece.len()));
        assert!(lines.held.len() <= LINE + piece.len());
    }
}
