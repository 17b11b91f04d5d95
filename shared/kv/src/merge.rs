//! Reads through writes that the store below does not show yet: the committer's transaction lays
//! new values over the store, sled lays old values over a commit that is not durable yet.

use std::{collections::BTreeMap, ops::Bound};

use crate::{Order, Row, Scan, StoreError};

/// Values that replace what a table holds; none hides the key.
pub(crate) type Layer = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// One page of `scan` as if `layer` had been written to the table that `below` reads.
pub(crate) fn merged(
    layer: &Layer,
    scan: &Scan,
    mut below: impl FnMut(&Scan) -> Result<Vec<Row>, StoreError>,
) -> Result<Vec<Row>, StoreError> {
    if scan.is_empty() {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    let mut bytes = 0usize;
    let mut rest = scan.clone();
    loop {
        let page = below(&rest)?;
        let size = page.iter().map(|(key, value)| key.len() + value.len()).sum();
        let last = page.last().map(|(key, _)| key.clone());
        let ended = !rest.is_full(page.len(), size);
        // The part of the layer that this page covers: up to its last key, or to the end.
        let mut span = rest.clone();
        if let (false, Some(key)) = (ended, &last) {
            match rest.order {
                Order::Ascending => span.to = Bound::Included(key.clone()),
                Order::Descending => span.from = Bound::Included(key.clone()),
            }
        }
        for (key, value) in interleaved(layer, &span, page) {
            bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
            out.push((key, value));
            if scan.is_full(out.len(), bytes) {
                return Ok(out);
            }
        }
        match last {
            Some(key) if !ended => rest.advance(&key),
            _ => return Ok(out),
        }
        if rest.is_empty() {
            return Ok(out);
        }
    }
}

/// The rows of one span, the layer's winning over the page's.
fn interleaved(layer: &Layer, span: &Scan, page: Vec<Row>) -> impl Iterator<Item = Row> {
    let over: Vec<(&Vec<u8>, &Option<Vec<u8>>)> = if span.is_empty() {
        Vec::new()
    } else {
        let range = layer.range::<[u8], _>((span.from(), span.to()));
        match span.order {
            Order::Ascending => range.collect(),
            Order::Descending => range.rev().collect(),
        }
    };
    let descending = span.order == Order::Descending;
    let mut over = over.into_iter().peekable();
    let mut page = page.into_iter().peekable();
    std::iter::from_fn(move || {
        loop {
            let order = match (over.peek(), page.peek()) {
                (Some((a, _)), Some((b, _))) if descending => b.cmp(a),
                (Some((a, _)), Some((b, _))) => (*a).cmp(b),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, _) => std::cmp::Ordering::Greater,
            };
            if order.is_eq() {
                page.next();
            }
            if order.is_gt() {
                return page.next();
            }
            if let Some((key, Some(value))) = over.next() {
                return Some((key.clone(), value.clone()));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, &str)]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        rows.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
    }

    fn read(base: &BTreeMap<Vec<u8>, Vec<u8>>, layer: &Layer, scan: &Scan) -> String {
        let below = |scan: &Scan| {
            let rows = base
                .range::<[u8], _>((scan.from(), scan.to()))
                .map(|(k, v)| Ok((k.clone(), v.clone())));
            match scan.order() {
                Order::Ascending => scan.collect(rows),
                Order::Descending => scan.collect(rows.rev()),
            }
        };
        let rows = merged(layer, scan, below).unwrap();
        rows.iter()
            .map(|(k, v)| format!("{}{}", String::from_utf8_lossy(k), String::from_utf8_lossy(v)))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn layer_wins_in_both_orders_and_over_page_borders() {
        let base = table(&[("a", "1"), ("b", "1"), ("c", "1"), ("e", "1"), ("g", "1")]);
        let mut layer = Layer::new();
        layer.insert(b"a".to_vec(), None);
        layer.insert(b"b".to_vec(), Some(b"2".to_vec()));
        layer.insert(b"d".to_vec(), Some(b"2".to_vec()));
        layer.insert(b"e".to_vec(), None);
        layer.insert(b"h".to_vec(), Some(b"2".to_vec()));
        assert_eq!(read(&base, &layer, &Scan::all(9)), "b2 c1 d2 g1 h2");
        assert_eq!(read(&base, &layer, &Scan::all(9).reversed()), "h2 g1 d2 c1 b2");
        assert_eq!(read(&base, &layer, &Scan::all(2)), "b2 c1");
        assert_eq!(read(&base, &layer, &Scan::all(2).reversed()), "h2 g1");
        assert_eq!(read(&base, &layer, &Scan::between(b"b", b"e", 9)), "b2 c1 d2");
        assert_eq!(read(&base, &layer, &Scan::all(9).bytes(3)), "b2 c1");
        assert_eq!(read(&base, &layer, &Scan::all(1).after(b"g")), "h2");
    }
}
