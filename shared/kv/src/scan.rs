//! The question a range read asks: bounds, order and how much to return.

use std::ops::Bound;

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Direction of a range read. Keys compare as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Smallest key first.
    #[default]
    Ascending,
    /// Largest key first.
    Descending,
}

/// One page of a range read.
///
/// A page ends at the end of the bounds, at `rows` rows, or with the row at which its keys and
/// values reach `bytes`; it holds at least one row if there is one. So a page with fewer rows and
/// fewer bytes than asked for is the last one. To go on, [`Scan::after`] the last key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    pub(crate) from: Bound<Vec<u8>>,
    pub(crate) to: Bound<Vec<u8>>,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    pub(crate) order: Order,
}

impl Scan {
    /// Every key, at most `rows` a page.
    pub fn all(rows: usize) -> Self {
        Self::bounds(Bound::Unbounded, Bound::Unbounded, rows)
    }

    /// Keys that begin with `prefix`, at most `rows` a page.
    pub fn prefix(prefix: &[u8], rows: usize) -> Self {
        let to = successor(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Self::bounds(Bound::Included(prefix.to_vec()), to, rows)
    }

    /// Keys from `lo` up to but not including `hi`, at most `rows` a page.
    pub fn between(lo: &[u8], hi: &[u8], rows: usize) -> Self {
        Self::bounds(Bound::Included(lo.to_vec()), Bound::Excluded(hi.to_vec()), rows)
    }

    /// Keys within any bounds, at most `rows` a page.
    pub fn bounds(from: Bound<Vec<u8>>, to: Bound<Vec<u8>>, rows: usize) -> Self {
        Self { from, to, rows, bytes: usize::MAX, order: Order::Ascending }
    }

    /// Ends the page with the row at which keys and values reach `bytes` bytes.
    #[must_use]
    pub fn bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// The same keys, largest first.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { order: Order::Descending, ..self }
    }

    /// The same page size and order, beyond `key`: the next page after one that ended with it.
    #[must_use]
    pub fn after(mut self, key: &[u8]) -> Self {
        self.advance(key);
        self
    }

    /// The lower bound.
    pub fn from(&self) -> Bound<&[u8]> {
        self.from.as_ref().map(Vec::as_slice)
    }

    /// The upper bound.
    pub fn to(&self) -> Bound<&[u8]> {
        self.to.as_ref().map(Vec::as_slice)
    }

    /// Most rows in a page.
    pub fn max_rows(&self) -> usize {
        self.rows
    }

    /// Bytes at which a page ends.
    pub fn max_bytes(&self) -> usize {
        self.bytes
    }

    /// The direction.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Whether no key can lie within the bounds, or no row may be returned. Some maps panic when
    /// asked for such a range, so engines ask this first.
    pub fn is_empty(&self) -> bool {
        let crossed = match (&self.from, &self.to) {
            (Bound::Included(lo), Bound::Included(hi)) => lo > hi,
            (
                Bound::Included(lo) | Bound::Excluded(lo),
                Bound::Included(hi) | Bound::Excluded(hi),
            ) => lo >= hi,
            _ => false,
        };
        crossed || self.rows == 0
    }

    /// Whether a page of `rows` rows and `bytes` bytes is full.
    pub fn is_full(&self, rows: usize, bytes: usize) -> bool {
        rows >= self.rows || bytes >= self.bytes
    }

    pub(crate) fn advance(&mut self, key: &[u8]) {
        let bound = Bound::Excluded(key.to_vec());
        match self.order {
            Order::Ascending => self.from = bound,
            Order::Descending => self.to = bound,
        }
    }

    /// Collects a page from rows that come in the scan's order.
    pub(crate) fn collect<E>(
        &self,
        rows: impl Iterator<Item = Result<Row, E>>,
    ) -> Result<Vec<Row>, E> {
        let mut page = Vec::new();
        let mut bytes = 0usize;
        for row in rows {
            let (key, value) = row?;
            bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
            page.push((key, value));
            if self.is_full(page.len(), bytes) {
                break;
            }
        }
        Ok(page)
    }
}

/// The smallest byte string above every string that begins with `prefix`; none if the prefix is
/// all 0xff.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut next = prefix.get(..=last)?.to_vec();
    if let Some(byte) = next.last_mut() {
        *byte += 1;
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ends_before_its_successor() {
        assert_eq!(Scan::prefix(b"a\xff", 1).to(), Bound::Excluded(b"b".as_slice()));
        assert_eq!(Scan::prefix(b"\xff\xff", 1).to(), Bound::Unbounded);
        assert_eq!(Scan::prefix(b"", 1).to(), Bound::Unbounded);
    }

    #[test]
    fn crossed_bounds_are_empty() {
        assert!(Scan::between(b"b", b"a", 9).is_empty());
        assert!(Scan::between(b"a", b"a", 9).is_empty());
        assert!(Scan::all(0).is_empty());
        assert!(!Scan::between(b"a", b"b", 9).is_empty());
        let one = Scan::bounds(Bound::Included(vec![1]), Bound::Included(vec![1]), 9);
        assert!(!one.is_empty());
    }
}
