//! Keys: what stands where. Numbers are big-endian, so that the order of the bytes is the order
//! of what they mean; every key but the server's own begins with the account.

use tidings_proof::Replica;
use tidings_wire::{AccountId, AppId, DeviceId, Epoch, Position, TableTag};

/// The counter of positions, in `server`.
pub(crate) const COUNTER: &[u8] = b"counter";
/// The secret half of the token key, in `server`.
pub(crate) const TOKEN_KEY: &[u8] = b"token_key";
/// What the start records in `server` begin with; a number follows.
pub(crate) const STARTS: &[u8] = b"start/";

/// A start record.
pub(crate) fn start(number: u64) -> Vec<u8> {
    [STARTS, &number.to_be_bytes()].concat()
}

/// An account's row.
pub(crate) fn account(account: AccountId) -> Vec<u8> {
    account.0.to_vec()
}

/// An entry of a chain.
pub(crate) fn chain(account: AccountId, index: u64) -> Vec<u8> {
    [account.0.as_slice(), &index.to_be_bytes()].concat()
}

/// What the key ring holds for an epoch begins so.
pub(crate) fn epoch(account: AccountId, epoch: Epoch) -> Vec<u8> {
    [account.0.as_slice(), &epoch.0.to_be_bytes()].concat()
}

/// The sealed earlier secret of an epoch.
pub(crate) fn earlier(account: AccountId, number: Epoch) -> Vec<u8> {
    let mut key = epoch(account, number);
    key.push(0);
    key
}

/// The wrap of an epoch to a device.
pub(crate) fn wrap(account: AccountId, number: Epoch, device: DeviceId) -> Vec<u8> {
    let mut key = epoch(account, number);
    key.push(1);
    key.extend_from_slice(&device.0);
    key
}

/// An app's row, by its name.
pub(crate) fn app(account: AccountId, app: &AppId) -> Vec<u8> {
    [account.0.as_slice(), app.as_str().as_bytes()].concat()
}

/// An account and the number of an app in it: what everything of the app begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix([u8; Prefix::LEN]);

impl Prefix {
    pub(crate) const LEN: usize = AccountId::LEN + 4;

    pub(crate) fn new(account: AccountId, number: u32) -> Self {
        let mut bytes = [0; Self::LEN];
        let parts = account.0.into_iter().chain(number.to_be_bytes());
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn with(&self, parts: &[&[u8]]) -> Vec<u8> {
        let mut key = self.0.to_vec();
        parts.iter().for_each(|part| key.extend_from_slice(part));
        key
    }

    /// A blob in `log`.
    pub(crate) fn log(&self, place: Place) -> Vec<u8> {
        self.with(&[&place.bytes()])
    }

    /// What the blobs of a table in `tags` begin with.
    pub(crate) fn tag(&self, tag: TableTag) -> Vec<u8> {
        self.with(&[&tag.0])
    }

    /// A blob in `tags`.
    pub(crate) fn tagged(&self, tag: TableTag, place: Place) -> Vec<u8> {
        self.with(&[&tag.0, &place.bytes()])
    }

    /// What a replica's rows begin with; its row in `manifests`, `manifest_heads` and `pulls`.
    pub(crate) fn replica(&self, replica: Replica) -> Vec<u8> {
        self.with(&[&replica.device.0, &replica.incarnation.0])
    }

    /// What a device's rows begin with.
    pub(crate) fn device(&self, device: DeviceId) -> Vec<u8> {
        self.with(&[&device.0])
    }

    /// A lane in `lanes`.
    pub(crate) fn lane(&self, replica: Replica, tag: TableTag) -> Vec<u8> {
        self.with(&[&replica.device.0, &replica.incarnation.0, &tag.0])
    }
}

/// Where a blob stands: the position of its push, and its number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) position: Position,
    pub(crate) index: u16,
}

impl Place {
    const LEN: usize = 8 + 2;

    /// The first place of a push.
    pub(crate) fn first(position: Position) -> Self {
        Self { position, index: 0 }
    }

    fn bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let parts = self.position.0.to_be_bytes().into_iter().chain(self.index.to_be_bytes());
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        bytes
    }

    /// The place at the end of a key of `log` or `tags`.
    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        let (position, index) = key.last_chunk::<{ Self::LEN }>()?.split_first_chunk::<8>()?;
        let position = Position(u64::from_be_bytes(*position));
        Some(Self { position, index: u16::from_be_bytes(index.try_into().ok()?) })
    }
}

/// The replica at the end of a key of `manifests`, `manifest_heads` or `pulls`.
pub(crate) fn replica_of(key: &[u8]) -> Option<Replica> {
    replica_at(key.get(Prefix::LEN..)?).filter(|_| key.len() == Prefix::LEN + Replica::LEN)
}

/// Replica and tag of a key of `lanes`.
pub(crate) fn lane_of(key: &[u8]) -> Option<(Replica, TableTag)> {
    let rest = key.get(Prefix::LEN..)?;
    Some((replica_at(rest)?, TableTag::from_slice(rest.get(Replica::LEN..)?)?))
}

/// The last 16 bytes of a key, as a tag.
pub(crate) fn tag_of(key: &[u8]) -> Option<TableTag> {
    key.last_chunk().copied().map(TableTag)
}

fn replica_at(bytes: &[u8]) -> Option<Replica> {
    tidings_proof::lane::Replica::read(&mut tidings_proof::Reader::new(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use tidings_wire::Incarnation;

    use super::*;

    #[test]
    fn places_sort_and_read_back() {
        let prefix = Prefix::new(AccountId([7; 16]), 3);
        let a = Place { position: Position(255), index: 9 };
        let b = Place { position: Position(256), index: 0 };
        assert!(prefix.log(a) < prefix.log(b));
        assert_eq!(Place::of_key(&prefix.log(a)), Some(a));
        assert_eq!(Place::of_key(&prefix.tagged(TableTag([1; 16]), b)), Some(b));
        let replica = Replica { device: DeviceId([2; 16]), incarnation: Incarnation([4; 8]) };
        assert_eq!(replica_of(&prefix.replica(replica)), Some(replica));
        let tag = TableTag([5; 16]);
        assert_eq!(lane_of(&prefix.lane(replica, tag)), Some((replica, tag)));
        assert_eq!(lane_of(&prefix.replica(replica)), None);
    }
}
