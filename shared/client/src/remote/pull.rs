//! Who pulls, and what.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use tidings_wire::{AppId, DeviceId, Incarnation, Seq, TableTag, sync::ManifestHead};

/// A replica of one app: who asks, and about what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// The app.
    pub app: AppId,
    /// The signed-in device.
    pub device: DeviceId,
    /// Its replica, whose own blobs are left out of answers.
    pub incarnation: Incarnation,
}

/// What a pull passes. The default passes everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullFilter {
    /// Only these tables; at most [`limits::PULL_TAGS`](tidings_wire::limits::PULL_TAGS).
    pub tables: Option<Vec<TableTag>>,
    /// Only what the server received at or after this instant, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Most entries in the answer.
    pub limit: Option<u32>,
    /// Manifests that need not be sent again, at most
    /// [`limits::PULL_KNOWN_MANIFESTS`](tidings_wire::limits::PULL_KNOWN_MANIFESTS).
    pub known: Vec<ManifestHead>,
}

/// One lane, for reading its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Device of the lane.
    pub device: DeviceId,
    /// Incarnation of the lane.
    pub incarnation: Incarnation,
    /// Table of the lane.
    pub table: TableTag,
    /// First blob wanted.
    pub from: Seq,
}

pub(super) type Pairs = Vec<(&'static str, String)>;

impl Replica {
    /// The query of a pull, or of headers, from a cursor on.
    pub(super) fn query(&self, cursor: Option<&[u8]>, filter: &PullFilter) -> Pairs {
        let mut query = vec![
            ("app_id", self.app.to_string()),
            ("device_id", self.device.to_string()),
            ("incarnation", self.incarnation.to_string()),
        ];
        if let Some(cursor) = cursor {
            query.push(("cursor", URL_SAFE_NO_PAD.encode(cursor)));
        }
        if let Some(limit) = filter.limit {
            query.push(("limit", limit.to_string()));
        }
        if let Some(tables) = &filter.tables {
            let tags: Vec<String> = tables.iter().map(TableTag::to_string).collect();
            query.push(("tables", tags.join(",")));
        }
        if let Some(since) = filter.since_ms {
            query.push(("since", since.to_string()));
        }
        if !filter.known.is_empty() {
            let records: Vec<u8> = filter.known.iter().flat_map(known_record).collect();
            query.push(("manifests", URL_SAFE_NO_PAD.encode(records)));
        }
        query
    }
}

/// Device, incarnation and number of a manifest, 32 bytes.
fn known_record(head: &ManifestHead) -> Vec<u8> {
    [&head.device.0[..], &head.incarnation.0[..], &head.n.0.to_be_bytes()[..]].concat()
}

#[cfg(test)]
mod tests {
    use tidings_wire::{Hash, ManifestNumber};

    use super::*;

    fn replica() -> Replica {
        Replica {
            app: "notes".parse().unwrap(),
            device: DeviceId([1; 16]),
            incarnation: Incarnation([2; 8]),
        }
    }

    #[test]
    fn a_pull_without_a_filter_names_only_who_asks() {
        let names: Vec<_> = replica()
            .query(None, &PullFilter::default())
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["app_id", "device_id", "incarnation"]);
    }

    #[test]
    fn a_filter_is_spelled_as_the_server_reads_it() {
        let filter = PullFilter {
            tables: Some(vec![TableTag([0xab; 16]), TableTag([0xcd; 16])]),
            since_ms: Some(1_700_000_000_123),
            limit: Some(7),
            known: vec![ManifestHead {
                device: DeviceId([0xff; 16]),
                incarnation: Incarnation([0; 8]),
                n: ManifestNumber(258),
                hash: Hash::ZERO,
            }],
        };
        let query = replica().query(Some(&[0xfb, 0xff]), &filter);
        let value = |name| query.iter().find(|(key, _)| *key == name).unwrap().1.as_str();
        assert_eq!(value("cursor"), "-_8");
        assert_eq!(value("limit"), "7");
        assert_eq!(value("since"), "1700000000123");
        assert_eq!(value("tables"), format!("{},{}", "ab".repeat(16), "cd".repeat(16)));
        let known = URL_SAFE_NO_PAD.decode(value("manifests")).unwrap();
        assert_eq!(known.len(), 32);
        assert_eq!(&known[22..], &[0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
