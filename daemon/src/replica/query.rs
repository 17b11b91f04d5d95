//! Reading rows: one page of a query over a view of one moment.

use std::ops::ControlFlow;

use tidings_tables::{Object, Page, Query, RowId, TableName, Value};
use tidings_wire::AppId;
use tidings_wire::local::LogPosition;

use super::{Image, Replica, StoredRow, keys, meta};
use crate::store::{Reader, Scan, StoreError, damaged};

/// One page and the position that it was read at.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The page.
    pub page: Page,
    /// The app's position.
    pub position: LogPosition,
}

/// Rows and bytes that are read from the store at a time.
const PAGE_ROWS: usize = 500;
const PAGE_BYTES: usize = 1 << 20;

/// Answers a query. Without `total` the count in the page is meaningless, and rows that cannot
/// change the page are not read.
pub fn query(
    source: &impl Reader,
    app: &AppId,
    table: &TableName,
    query: &Query,
    total: bool,
) -> Result<Answer, StoreError> {
    let mut run = query.run();
    match query.filter().fixed(tidings_tables::names::ID) {
        // At most one row has the id, and none an id that is no string.
        Some(Value::String(id)) => {
            if let Ok(id) = RowId::new(id.as_str())
                && let Some(record) = record(source, app, table, &id)?
            {
                run.offer(record);
            }
        }
        Some(_) => {}
        None => {
            let from = if total { None } else { query.after_id() };
            scan(source, app, table, from.as_ref(), |id, row| {
                if let Some(image) = row.image() {
                    run.offer(image.into_record(&id));
                }
                let done = !total && query.is_by_id() && run.is_full();
                if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
    }
    Ok(Answer { page: run.finish(), position: position(source, app)? })
}

/// The record of a row, if apps see it.
pub fn record(
    source: &impl Reader,
    app: &AppId,
    table: &TableName,
    id: &RowId,
) -> Result<Option<Object>, StoreError> {
    Ok(image(source, app, table, id)?.map(|image| image.into_record(id)))
}

/// A row as apps see it, if they do.
pub fn image(
    source: &impl Reader,
    app: &AppId,
    table: &TableName,
    id: &RowId,
) -> Result<Option<Image>, StoreError> {
    Ok(Replica::row(source, app, table, id)?.and_then(|row| row.image()))
}

/// An app's position; zero while it does not exist.
pub fn position(source: &impl Reader, app: &AppId) -> Result<LogPosition, StoreError> {
    Ok(LogPosition(meta::app(source, app)?.map_or(0, |record| record.head)))
}

/// Visits the rows of a table by id, beginning after `after`, shown or not, until told to stop.
pub fn scan(
    source: &impl Reader,
    app: &AppId,
    table: &TableName,
    after: Option<&RowId>,
    mut visit: impl FnMut(RowId, StoredRow) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let prefix = keys::table(app, table);
    let mut scan = Scan::prefix(&prefix, PAGE_ROWS).bytes(PAGE_BYTES);
    if let Some(id) = after {
        scan = scan.after(&keys::row(app, table, id));
    }
    loop {
        let page = source.range(keys::ROWS, &scan)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        scan = scan.after(last);
        for (key, value) in &page {
            let id = keys::tail(key, &prefix).and_then(|id| RowId::new(id).ok());
            let id = id.ok_or_else(|| damaged(keys::ROWS, key, "not a row id"))?;
            let row = StoredRow::decode(value, keys::ROWS, key)?;
            if visit(id, row).is_break() {
                return Ok(());
            }
        }
    }
}
