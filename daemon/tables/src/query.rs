//! One-shot queries: filter, sort, and one page of the result.
//!
//! The caller offers records in any order; a query keeps no more of them than its page needs.
//! A page continues after the last record of the one before, by sort key and id, so rows that come
//! and go in between neither repeat nor hide others.

use std::collections::BTreeMap;

use minicbor::Decoder;
use tidings_wire::limits;

use crate::cbor::{DecodeError, end, read_array, read_str, to_bytes};
use crate::filter::Filter;
use crate::names::RowId;
use crate::object::Object;
use crate::order::text_of_key;
use crate::sort::Sort;

/// A compiled query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    filter: Filter,
    sort: Sort,
    limit: usize,
    offset: usize,
    /// Only records with a greater key.
    after: Option<Vec<u8>>,
}

/// Why a query cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// `limit` out of range.
    #[error("`limit` must be 1 to {max}", max = limits::QUERY_LIMIT)]
    Limit,
    /// `offset` out of range.
    #[error("`offset` may be {max}; beyond that use `after`", max = limits::QUERY_OFFSET)]
    Offset,
    /// Not a token that [`Page::next`] gave for this sort.
    #[error("`after` must be the `next` of a page of the same sort")]
    After,
}

/// One page of a result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The records, in order.
    pub records: Vec<Object>,
    /// The `after` of the next page; `None` if this one is the last.
    pub next: Option<String>,
    /// Records that match, on this page and all others; those before `after` count too.
    pub total: usize,
}

impl Query {
    /// A query for the first page of the default size.
    pub fn new(filter: Filter, sort: Sort) -> Self {
        Self { filter, sort, limit: limits::QUERY_LIMIT_DEFAULT, offset: 0, after: None }
    }

    /// Sets how many records a page has.
    ///
    /// # Errors
    /// If it is none or too many.
    pub fn limit(self, limit: usize) -> Result<Self, QueryError> {
        let fits = (1..=limits::QUERY_LIMIT).contains(&limit);
        if fits { Ok(Self { limit, ..self }) } else { Err(QueryError::Limit) }
    }

    /// Sets how many records to pass over.
    ///
    /// # Errors
    /// If they are too many.
    pub fn offset(self, offset: usize) -> Result<Self, QueryError> {
        let fits = offset <= limits::QUERY_OFFSET;
        if fits { Ok(Self { offset, ..self }) } else { Err(QueryError::Offset) }
    }

    /// Continues after a page, by its [`Page::next`].
    ///
    /// # Errors
    /// If the token is not one, or of another sort.
    pub fn after(self, token: &str) -> Result<Self, QueryError> {
        let bytes = from_hex(token).ok_or(QueryError::After)?;
        let key = self.read_token(&bytes).ok().flatten().ok_or(QueryError::After)?;
        Ok(Self { after: Some(key), ..self })
    }

    /// The `after` of a page that ends with this record, for those who cut a page short.
    pub fn next_after(&self, record: &Object) -> String {
        self.token(&self.sort.key(record))
    }

    /// The filter, for those who can do better than offer every record.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether records come in the order of their ids, so that offering them in this order may
    /// end when the run [is full](Run::is_full).
    pub fn is_by_id(&self) -> bool {
        self.sort.paths().len() == 0
    }

    /// The id after which the page begins, where records come in the order of their ids.
    pub fn after_id(&self) -> Option<RowId> {
        let key = self.after.as_ref().filter(|_| self.is_by_id())?;
        text_of_key(key).and_then(|id| RowId::new(id).ok())
    }

    /// Begins a run; offer it every record that may match.
    pub fn run(&self) -> Run<'_> {
        Run { query: self, held: BTreeMap::new(), total: 0 }
    }

    /// Records to hold: the page, what it passes over, and one to know whether more follow.
    fn capacity(&self) -> usize {
        self.offset + self.limit + 1
    }

    fn token(&self, key: &[u8]) -> String {
        let paths = self.sort.paths();
        let bytes = to_bytes(|encoder| {
            encoder.array(3)?.u64(TOKEN_FORMAT)?.array(paths.len() as u64)?;
            for path in paths {
                encoder.str(&path)?;
            }
            encoder.bytes(key)?.ok()
        });
        to_hex(&bytes)
    }

    /// The key in a token, if it is of this sort.
    fn read_token(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, DecodeError> {
        let mut decoder = Decoder::new(bytes);
        let fields = read_array(&mut decoder)?;
        let format = decoder.u64().map_err(|_| DecodeError::new(&decoder, "no format"))?;
        let count = read_array(&mut decoder)?;
        let mut ours = self.sort.paths();
        let mut same = (fields, format, count) == (3, TOKEN_FORMAT, ours.len() as u64);
        for _ in 0..count {
            let theirs = read_str(&mut decoder)?;
            same &= ours.next().as_deref() == Some(theirs);
        }
        let key = decoder.bytes().map_err(|_| DecodeError::new(&decoder, "no key"))?;
        end(&decoder)?;
        Ok(same.then(|| key.to_vec()))
    }
}

/// A query at work.
#[derive(Debug)]
pub struct Run<'a> {
    query: &'a Query,
    held: BTreeMap<Vec<u8>, Object>,
    total: usize,
}

impl Run<'_> {
    /// Looks at a record: the columns with `id` and `_ver`. Each id may be offered once.
    pub fn offer(&mut self, record: Object) {
        if !self.query.filter.matches(&record) {
            return;
        }
        self.total += 1;
        let key = self.query.sort.key(&record);
        if self.query.after.as_ref().is_some_and(|after| key <= *after) {
            return;
        }
        let full = self.is_full();
        if full && self.held.last_key_value().is_some_and(|(last, _)| key >= *last) {
            return;
        }
        self.held.insert(key, record);
        if full {
            self.held.pop_last();
        }
    }

    /// Whether the page is complete, and no record with a greater key can change it.
    pub fn is_full(&self) -> bool {
        self.held.len() >= self.query.capacity()
    }

    /// The page.
    pub fn finish(self) -> Page {
        let Query { limit, offset, .. } = *self.query;
        let more = self.held.len() > offset + limit;
        let mut page = Page { total: self.total, ..Page::default() };
        let mut last = None;
        for (key, record) in self.held.into_iter().skip(offset).take(limit) {
            page.records.push(record);
            last = Some(key);
        }
        page.next = last.filter(|_| more).map(|key| self.query.token(&key));
        page
    }
}

const TOKEN_FORMAT: u64 = 1;

fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;
    use crate::value::Value;

    fn rows(count: usize) -> Vec<Object> {
        (0..count)
            .map(|n| {
                // Not in order of anything.
                let n = n * 7 % count;
                Object::from([
                    ("id", Value::from(format!("r{n:03}"))),
                    ("group", Value::from((n % 3) as u64)),
                ])
            })
            .collect()
    }

    fn run(query: &Query, rows: &[Object]) -> Page {
        let mut run = query.run();
        rows.iter().cloned().for_each(|row| run.offer(row));
        run.finish()
    }

    fn ids(page: &Page) -> Vec<&str> {
        page.records.iter().map(|record| record.get("id").unwrap().as_str().unwrap()).collect()
    }

    #[test]
    fn pages_join_to_the_whole_in_order() {
        let rows = rows(50);
        for sort in [&[][..], &["-group"], &["group", "-id"]] {
            let query = Query::new(Filter::all(), Sort::new(sort).unwrap());
            let whole = run(&query, &rows);
            assert_eq!((whole.records.len(), whole.total, &whole.next), (50, 50, &None));

            let query = query.limit(7).unwrap();
            let mut joined = Vec::new();
            let mut page = run(&query, &rows);
            loop {
                assert_eq!(page.total, 50);
                joined.extend(page.records.clone());
                let Some(next) = page.next else { break };
                page = run(&query.clone().after(&next).unwrap(), &rows);
            }
            assert_eq!(joined, whole.records, "{sort:?}");
        }
    }

    #[test]
    fn a_page_by_id_tells_where_it_begins_and_when_it_is_full() {
        let rows = rows(10);
        let query = Query::new(Filter::all(), Sort::default()).limit(3).unwrap();
        assert_eq!((query.is_by_id(), query.after_id()), (true, None));
        let first = run(&query, &rows);
        let query = query.after(&first.next.unwrap()).unwrap();
        assert_eq!(query.after_id(), Some(RowId::new("r002").unwrap()));
        let mut sorted = rows.clone();
        sorted.sort_by_key(|row| row.get("id").unwrap().as_str().unwrap().to_owned());
        let mut page = query.run();
        let offered = sorted.into_iter().skip(3).take_while(|row| {
            page.offer(row.clone());
            !page.is_full()
        });
        assert_eq!(offered.count(), 3, "one more than the page");
        assert_eq!(ids(&page.finish()), ["r003", "r004", "r005"]);
        let other = Query::new(Filter::all(), Sort::new(&["-id"]).unwrap());
        assert_eq!((other.is_by_id(), other.after_id()), (false, None));
    }

    #[test]
    fn a_page_goes_on_though_its_last_row_is_gone() {
        let mut rows = rows(10);
        let query = Query::new(Filter::all(), Sort::default()).limit(3).unwrap();
        let first = run(&query, &rows);
        assert_eq!(ids(&first), ["r000", "r001", "r002"]);
        rows.retain(|row| !["r002", "r003"].contains(&row.get("id").unwrap().as_str().unwrap()));
        let second = run(&query.after(&first.next.unwrap()).unwrap(), &rows);
        assert_eq!(ids(&second), ["r004", "r005", "r006"]);
    }

    #[test]
    fn a_page_that_is_cut_short_goes_on_where_it_was_cut() {
        let rows = rows(20);
        for sort in [&[][..], &["-group"]] {
            let query = Query::new(Filter::all(), Sort::new(sort).unwrap());
            let whole = run(&query, &rows);
            let rest =
                run(&query.clone().after(&query.next_after(&whole.records[4])).unwrap(), &rows);
            assert_eq!(rest.records, whole.records[5..]);
        }
    }

    #[test]
    fn filter_offset_and_limit() {
        let filter = Filter::compile(&parse(br#"{"group":1}"#).unwrap()).unwrap();
        let query = Query::new(filter, Sort::new(&["-id"]).unwrap());
        let page = run(&query.limit(2).unwrap().offset(1).unwrap(), &rows(12));
        assert_eq!((ids(&page), page.total), (vec!["r007", "r004"], 4));
        assert!(page.next.is_some());
    }

    #[test]
    fn what_cannot_be_asked() {
        let query = || Query::new(Filter::all(), Sort::new(&["a"]).unwrap());
        assert_eq!(query().limit(0), Err(QueryError::Limit));
        assert_eq!(query().limit(1_001), Err(QueryError::Limit));
        assert_eq!(query().offset(10_001), Err(QueryError::Offset));
        let token = query().token(b"key");
        assert!(query().after(&token).is_ok());
        let other = Query::new(Filter::all(), Sort::new(&["-a"]).unwrap());
        assert_eq!(other.after(&token), Err(QueryError::After));
        for wrong in ["", "0", "zz", "é", "83", &token[2..], &format!("{token}00")] {
            assert_eq!(query().after(wrong), Err(QueryError::After), "{wrong}");
        }
    }
}
