//! Sealing what this device writes: blobs at the end of its lanes, and the manifest over them.

use tidings_crypto::{SealError, random, seal_blob, sign_manifest};
use tidings_proof::{BlobHeader, Lane, LaneHead, Manifest, Replica, SignedManifest};
use tidings_wire::{AppId, Incarnation, Seq, TableTag};

use super::body::pack_body;
use super::open::Unlocked;

/// A blob as it will be sent, for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshBlob {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The table.
    pub tag: TableTag,
    /// The lane's head with it.
    pub head: LaneHead,
}

/// Appends to the lanes of one replica in one app.
#[derive(Debug)]
pub struct LaneWriter<'a> {
    unlocked: &'a Unlocked,
    app: &'a AppId,
    replica: Replica,
}

impl Unlocked {
    /// The replica of this device with that incarnation.
    pub fn replica(&self, incarnation: Incarnation) -> Replica {
        Replica { device: self.record.device, incarnation }
    }

    /// Appends to this device's lanes.
    pub fn lanes<'a>(&'a self, app: &'a AppId, incarnation: Incarnation) -> LaneWriter<'a> {
        LaneWriter { unlocked: self, app, replica: self.replica(incarnation) }
    }

    /// Signs a manifest of this device.
    ///
    /// # Errors
    /// It is too large.
    pub fn sign(&self, manifest: Manifest) -> Result<SignedManifest, SealError> {
        sign_manifest(&self.keys, manifest)
    }
}

impl LaneWriter<'_> {
    /// Seals a body as the lane's next blob.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn append(
        &self,
        tag: TableTag,
        after: LaneHead,
        body: &[u8],
    ) -> Result<FreshBlob, SealError> {
        let seq = Seq(after.seq.0.saturating_add(1));
        let header = BlobHeader {
            account: self.unlocked.record.account,
            lane: Lane { app: self.app.clone(), replica: self.replica, tag },
            seq,
            prev: after.hash,
            epoch: self.unlocked.chain.newest_epoch(),
        };
        let sealed = seal_blob(
            &self.unlocked.keys,
            &self.unlocked.keyring,
            &header,
            &pack_body(body),
            &mut random::system(),
        )?;
        let head = LaneHead { seq, hash: sealed.hash };
        Ok(FreshBlob { bytes: sealed.bytes, tag, head })
    }
}
