//! What one commit carries to an engine.

/// How long a commit waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Durability {
    /// The commit may be lost in a power cut until a synced one follows; it is never torn. For
    /// what can be fetched again, such as pulled pages.
    Relaxed,
    /// The commit has reached the disk when it returns.
    #[default]
    Synced,
}

/// One put or delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The table.
    pub table: &'static str,
    /// The key.
    pub key: Vec<u8>,
    /// The new value; none deletes the key.
    pub value: Option<Vec<u8>>,
}

/// Writes to several tables that an engine applies as one, or not at all. A key occurs at most
/// once, and writes of one table stand together in key order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    writes: Vec<Write>,
    bytes: usize,
}

impl Batch {
    /// Makes a batch of writes in any order; of several writes to one key the last counts.
    pub fn new(mut writes: Vec<Write>) -> Self {
        // Stable, so that among equal keys the last written stays last.
        writes.sort_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
        writes.dedup_by(|later, kept| {
            let same = later.table == kept.table && later.key == kept.key;
            if same {
                kept.value = later.value.take();
            }
            same
        });
        let bytes = writes.iter().map(|w| w.key.len() + w.value.as_ref().map_or(0, Vec::len)).sum();
        Self { writes, bytes }
    }

    /// The writes, by table and key.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// The writes of each table.
    pub fn tables(&self) -> impl Iterator<Item = (&'static str, &[Write])> {
        self.writes
            .chunk_by(|a, b| a.table == b.table)
            .filter_map(|chunk| chunk.first().map(|first| (first.table, chunk)))
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_write_of_a_key_counts() {
        let write = |table, key: &[u8], value: Option<&[u8]>| Write {
            table,
            key: key.to_vec(),
            value: value.map(<[u8]>::to_vec),
        };
        let batch = Batch::new(vec![
            write("b", b"k", Some(b"1")),
            write("a", b"z", Some(b"2")),
            write("b", b"k", None),
            write("a", b"y", Some(b"3")),
        ]);
        let tables: Vec<_> = batch.tables().map(|(t, w)| (t, w.len())).collect();
        assert_eq!(tables, [("a", 2), ("b", 1)]);
        assert_eq!(batch.writes()[0].key, b"y");
        assert_eq!(batch.writes()[2].value, None);
        assert_eq!(batch.bytes(), 5);
    }
}
