//! Keys and chain of one moment, and opening with them: verify, decrypt, unpack, decode.

use std::sync::Arc;

use tidings_crypto::{DeviceKeys, Keyring, open_blob};
use tidings_proof::{
    Blob, BlobHeader, Chain, DecodeError, LaneHead, Replica, Standing, VerifyError,
};
use tidings_tables::{Body, BodyError};
use tidings_wire::sync::ManifestMark;
use tidings_wire::{AppId, DeviceId, Hash, Stamp, TableTag};

use super::account::AccountRecord;
use super::anchors::{Anchors, Counts};
use super::body::{BodyProblem, unpack_body};

/// An unlocked account: cheap to clone, never changed in place.
#[derive(Debug, Clone)]
pub struct Unlocked {
    /// The account.
    pub record: AccountRecord,
    /// The device's keys.
    pub keys: Arc<DeviceKeys>,
    /// The epoch secrets held.
    pub keyring: Keyring,
    /// The pinned chain.
    pub chain: Chain,
    /// What counts of devices that were unlinked.
    pub anchors: Arc<Anchors>,
}

/// A blob that verified and opened.
#[derive(Debug, Clone)]
pub struct OpenedBlob {
    /// Its header.
    pub header: BlobHeader,
    /// Its hash.
    pub hash: Hash,
    /// The rows.
    pub body: Body,
}

/// Why a blob did not open.
#[derive(Debug, Clone, PartialEq)]
pub enum NotOpened {
    /// Its bytes are malformed or do not verify: nothing of it can be believed.
    Unverified,
    /// Its author was unlinked, and it is none of those that count: it is beyond the cut, or its
    /// lane is not anchored yet.
    Revoked(DeviceId),
    /// It, or its signer's chain, needs a newer Tidings.
    NeedsNewer,
    /// Its place is proved, but the rows cannot be read: a key is missing, or the sealed bytes or
    /// what is in them are not what they must be.
    Sealed {
        /// Its header, which verified.
        header: Box<BlobHeader>,
        /// Its hash.
        hash: Hash,
    },
}

impl Unlocked {
    /// Replicas of unlinked devices that have a cut and are not anchored, with their cuts.
    pub fn unanchored(&self) -> Vec<(AppId, Replica, ManifestMark)> {
        let mut found = Vec::new();
        for (device, known) in self.chain.devices() {
            let cuts = known.revoked.iter().flat_map(|revoked| &revoked.cuts);
            for ((app, incarnation), mark) in cuts {
                let replica = Replica { device: *device, incarnation: *incarnation };
                if !self.anchors.contains(app, replica) {
                    found.push((app.clone(), replica, *mark));
                }
            }
        }
        found
    }

    /// Whether it is known of everything that unlinked devices wrote in an app if it counts.
    pub fn is_anchored(&self, app: &AppId) -> bool {
        self.unanchored().iter().all(|(found, ..)| found != app)
    }

    /// The tag of a table; none while the first epoch's secret is missing.
    pub fn tag(&self, app: &AppId, table: &str) -> Option<TableTag> {
        self.keyring.tag(app, table)
    }

    /// Verifies a blob that came in a pull of `app`, and opens it.
    ///
    /// # Errors
    /// [`NotOpened`].
    pub fn open(&self, app: &AppId, bytes: &[u8]) -> Result<OpenedBlob, NotOpened> {
        let newer = |error: &DecodeError| matches!(error, DecodeError::NeedsNewer { .. });
        let blob = match Blob::parse(bytes) {
            Ok(blob) => blob,
            Err(error) if newer(&error) => return Err(NotOpened::NeedsNewer),
            Err(_) => return Err(NotOpened::Unverified),
        };
        // Nothing can be moved to another app: the header is signed.
        if blob.header().lane.app != *app {
            return Err(NotOpened::Unverified);
        }
        let blob = match blob.verify(&self.chain) {
            Ok(blob) => blob,
            Err(VerifyError::Decode(error)) if newer(&error) => return Err(NotOpened::NeedsNewer),
            Err(VerifyError::RevokedAuthor(device)) => return Err(NotOpened::Revoked(device)),
            Err(_) => return Err(NotOpened::Unverified),
        };
        let (header, hash) = (blob.header().clone(), blob.hash());
        let sealed = || NotOpened::Sealed { header: Box::new(header.clone()), hash };
        // What a device wrote that was unlinked since counts up to its cut.
        if *blob.standing() != Standing::Active {
            let replica = header.lane.replica;
            let place = LaneHead { seq: header.seq, hash };
            if self.anchors.judge(app, replica, header.lane.tag, place) != Counts::Yes {
                return Err(NotOpened::Revoked(replica.device));
            }
        }
        let plain = open_blob(&self.keyring, &blob).map_err(|_| sealed())?;
        let body = match unpack_body(&plain) {
            Ok(body) => body,
            Err(BodyProblem::NeedsNewer(_) | BodyProblem::Damaged | BodyProblem::TooLarge) => {
                return Err(sealed());
            }
        };
        let body = match Body::decode(&body) {
            Ok(body) => body,
            Err(BodyError::TooLarge(_) | BodyError::Format(_) | BodyError::Damaged(_)) => {
                return Err(sealed());
            }
        };
        // The server files blobs by their tag: a table must not hide under another's.
        if self.tag(app, body.table.as_str()) != Some(header.lane.tag) {
            return Err(sealed());
        }
        if body.deltas.iter().any(|(_, delta)| delta.version().millis() >= Stamp::MILLIS_LIMIT) {
            return Err(sealed());
        }
        Ok(OpenedBlob { header, hash, body })
    }
}
