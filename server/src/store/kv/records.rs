//! Rows: fixed fields after a format byte, so that a later version knows what it reads.

use tidings_proof::{DecodeError, LaneHead, Reader, Replica, Writer};
use tidings_wire::sync::{ChainHead, ManifestMark};
use tidings_wire::{AppId, Epoch, Hash, ManifestNumber, Position, Seq};

use crate::clock::Millis;
use crate::store::{AccountRow, Invite, Refusal, StoreFault};

/// A row of some table.
pub(crate) trait Row: Sized {
    /// What messages call it.
    const WHAT: &'static str;

    /// Appends the fields.
    fn write(&self, writer: &mut Writer);

    /// Reads the fields.
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// The row's bytes.
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(FORMAT);
        self.write(&mut writer);
        writer.finish()
    }

    /// Reads a row. The checksum below has passed, so what does not decode was written wrongly
    /// or by a later version.
    fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let read = || {
            let mut reader = Reader::new(bytes);
            let format = reader.u8(Self::WHAT)?;
            if format != FORMAT {
                return Err(DecodeError::NeedsNewer { what: Self::WHAT, found: format });
            }
            let row = Self::read(&mut reader)?;
            reader.finish()?;
            Ok(row)
        };
        read().map_err(|error| damaged(Self::WHAT, error))
    }
}

const FORMAT: u8 = 1;

/// A row that does not decode.
pub(crate) fn damaged(what: &str, error: impl std::fmt::Display) -> Refusal {
    StoreFault::Damaged(format!("{what}: {error}")).into()
}

/// An account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AccountRecord {
    pub(crate) row: AccountRow,
    /// Number of the next app.
    pub(crate) next_app: u32,
    pub(crate) apps: u32,
    /// Bytes of its chain and key ring.
    pub(crate) chain_bytes: u64,
    /// The account is being removed: for everybody it is gone.
    pub(crate) removing: bool,
}

impl Row for AccountRecord {
    const WHAT: &'static str = "account";

    fn write(&self, writer: &mut Writer) {
        let row = &self.row;
        writer.u64(row.head.index.0).raw(&row.head.hash.0).u32(row.epoch.0).u64(row.created.0);
        writer.u8(u8::from(row.suspended) | u8::from(self.removing) << 1);
        writer.u64(row.bytes).u64(row.blobs).u32(self.next_app).u32(self.apps);
        writer.u64(self.chain_bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let head = ChainHead { index: reader.chain_index()?, hash: reader.hash()? };
        let epoch: Epoch = reader.epoch()?;
        let created = Millis(reader.u64("created")?);
        let flags = reader.u8("flags")?;
        let (bytes, blobs) = (reader.u64("bytes")?, reader.u64("blobs")?);
        let suspended = flags & 1 != 0;
        let row = AccountRow { head, epoch, created, suspended, bytes, blobs };
        let (next_app, apps) = (reader.u32("next app")?, reader.u32("apps")?);
        let chain_bytes = reader.u64("chain bytes")?;
        Ok(Self { row, next_app, apps, chain_bytes, removing: flags & 2 != 0 })
    }
}

/// An app of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppRecord {
    /// Its number in the account.
    pub(crate) number: u32,
    /// The last position of its log.
    pub(crate) head: Position,
    /// When the last push was received: never falls, so that `since` is a position.
    pub(crate) received: Millis,
    pub(crate) lanes: u32,
    /// Replicas that have a manifest.
    pub(crate) replicas: u32,
    /// The counter at its last change of any kind.
    pub(crate) version: u64,
}

impl Row for AppRecord {
    const WHAT: &'static str = "app";

    fn write(&self, writer: &mut Writer) {
        writer.u32(self.number).u64(self.head.0).u64(self.received.0);
        writer.u32(self.lanes).u32(self.replicas).u64(self.version);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            number: reader.u32("number")?,
            head: Position(reader.u64("head")?),
            received: Millis(reader.u64("received")?),
            lanes: reader.u32("lanes")?,
            replicas: reader.u32("replicas")?,
            version: reader.u64("version")?,
        })
    }
}

/// A blob in the log; its bytes are kept as they were sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogRecord {
    /// When it was received.
    pub(crate) received: Millis,
    /// Position of the blob before it in its lane; 0 before the first.
    pub(crate) before: Position,
    pub(crate) blob: Vec<u8>,
}

impl LogRecord {
    /// Bytes beside the blob.
    pub(crate) const OVERHEAD: usize = 1 + 8 + 8;

    /// The bytes of a record, from a blob that is not copied twice.
    pub(crate) fn encoded(received: Millis, before: Position, blob: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::OVERHEAD + blob.len());
        bytes.push(FORMAT);
        bytes.extend_from_slice(&received.0.to_be_bytes());
        bytes.extend_from_slice(&before.0.to_be_bytes());
        bytes.extend_from_slice(blob);
        bytes
    }

    /// The time alone, without copying the blob.
    pub(crate) fn received(bytes: &[u8]) -> Result<Millis, Refusal> {
        let time = bytes.get(1..9).and_then(|time| time.try_into().ok());
        time.map(|time| Millis(u64::from_be_bytes(time)))
            .ok_or_else(|| damaged(Self::WHAT, "the record is short"))
    }
}

impl Row for LogRecord {
    const WHAT: &'static str = "log entry";

    fn write(&self, writer: &mut Writer) {
        writer.u64(self.received.0).u64(self.before.0).raw(&self.blob);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            received: Millis(reader.u64("received")?),
            before: Position(reader.u64("before")?),
            blob: reader.rest().to_vec(),
        })
    }
}

/// What the index of a table holds of a blob: enough to skip it, or to prove a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TagRecord {
    pub(crate) replica: Replica,
    pub(crate) seq: Seq,
    pub(crate) hash: Hash,
    /// Bytes of the blob.
    pub(crate) size: u32,
}

impl Row for TagRecord {
    const WHAT: &'static str = "tag entry";

    fn write(&self, writer: &mut Writer) {
        self.replica.write(writer);
        writer.u64(self.seq.0).raw(&self.hash.0).u32(self.size);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            replica: Replica::read(reader)?,
            seq: reader.seq()?,
            hash: reader.hash()?,
            size: reader.u32("size")?,
        })
    }
}

/// A lane; kept for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneRecord {
    pub(crate) head: LaneHead,
    /// Where its last blob stands.
    pub(crate) position: Position,
}

impl Row for LaneRecord {
    const WHAT: &'static str = "lane";

    fn write(&self, writer: &mut Writer) {
        writer.u64(self.head.seq.0).raw(&self.head.hash.0).u64(self.position.0);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let head = LaneHead { seq: reader.seq()?, hash: reader.hash()? };
        Ok(Self { head, position: Position(reader.u64("position")?) })
    }
}

/// The newest manifest of a replica, without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ManifestRecord {
    pub(crate) mark: ManifestMark,
    /// Bytes of the manifest.
    pub(crate) size: u32,
}

impl Row for ManifestRecord {
    const WHAT: &'static str = "manifest head";

    fn write(&self, writer: &mut Writer) {
        writer.u64(self.mark.n.0).raw(&self.mark.hash.0).u32(self.size);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mark = ManifestMark { n: ManifestNumber(reader.u64("n")?), hash: reader.hash()? };
        Ok(Self { mark, size: reader.u32("size")? })
    }
}

/// What one table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UsageRecord {
    pub(crate) blobs: u64,
    pub(crate) bytes: u64,
}

impl Row for UsageRecord {
    const WHAT: &'static str = "usage";

    fn write(&self, writer: &mut Writer) {
        writer.u64(self.blobs).u64(self.bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { blobs: reader.u64("blobs")?, bytes: reader.u64("bytes")? })
    }
}

/// How far a replica has pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PullRecord {
    pub(crate) position: Position,
    pub(crate) at: Millis,
}

impl Row for PullRecord {
    const WHAT: &'static str = "pull";

    fn write(&self, writer: &mut Writer) {
        writer.u64(self.position.0).u64(self.at.0);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { position: Position(reader.u64("position")?), at: Millis(reader.u64("at")?) })
    }
}

impl Row for Invite {
    const WHAT: &'static str = "invite";

    fn write(&self, writer: &mut Writer) {
        writer.u64(self.created.0).u64(self.expires.0).bytes(self.note.as_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (created, expires) = (Millis(reader.u64("created")?), Millis(reader.u64("expires")?));
        let note = reader.bytes("note", 4_096)?;
        let note = String::from_utf8_lossy(note).into_owned();
        Ok(Self { created, expires, note })
    }
}

/// The app id at the end of a key of `apps`.
pub(crate) fn app_of(key: &[u8]) -> Result<AppId, Refusal> {
    let name = key.get(tidings_wire::AccountId::LEN..).unwrap_or_default();
    std::str::from_utf8(name)
        .ok()
        .and_then(|name| name.parse().ok())
        .ok_or_else(|| damaged("app", "the key holds no app id"))
}

#[cfg(test)]
mod tests {
    use tidings_wire::{ChainIndex, DeviceId, Incarnation};

    use super::*;

    fn same<R: Row + PartialEq + std::fmt::Debug>(row: R) {
        let bytes = row.encode();
        assert_eq!(R::decode(&bytes).unwrap(), row);
        for at in 0..bytes.len().min(LogRecord::OVERHEAD) {
            assert!(R::decode(&bytes[..at]).is_err());
        }
        let mut newer = bytes;
        newer[0] = 9;
        assert!(R::decode(&newer).is_err());
    }

    #[test]
    fn rows_read_back() {
        let head = ChainHead { index: ChainIndex(3), hash: Hash([1; 32]) };
        let row = AccountRow {
            head,
            epoch: Epoch(2),
            created: Millis(5),
            suspended: true,
            bytes: 6,
            blobs: 7,
        };
        same(AccountRecord { row, next_app: 8, apps: 7, chain_bytes: 9, removing: true });
        same(AppRecord {
            number: 1,
            head: Position(2),
            received: Millis(3),
            lanes: 4,
            replicas: 6,
            version: 5,
        });
        let replica = Replica { device: DeviceId([2; 16]), incarnation: Incarnation([4; 8]) };
        same(TagRecord { replica, seq: Seq(1), hash: Hash([2; 32]), size: 3 });
        let lane = LaneHead { seq: Seq(1), hash: Hash([2; 32]) };
        same(LaneRecord { head: lane, position: Position(4) });
        let mark = ManifestMark { n: ManifestNumber(1), hash: Hash([2; 32]) };
        same(ManifestRecord { mark, size: 3 });
        same(UsageRecord { blobs: 1, bytes: 2 });
        same(PullRecord { position: Position(1), at: Millis(2) });
        same(Invite { created: Millis(1), expires: Millis(2), note: "for Ada".to_owned() });
        let log = LogRecord { received: Millis(1), before: Position(2), blob: vec![3; 40] };
        assert_eq!(log.encode(), LogRecord::encoded(log.received, log.before, &log.blob));
        assert_eq!(LogRecord::received(&log.encode()).unwrap(), log.received);
        same(log);
    }
}
