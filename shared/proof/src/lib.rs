//! What Tidings signs, byte for byte, and how it is verified: docs/protocol.md as code.
//!
//! Used by the server (which links nothing else of the cryptography) and by every client. There
//! are no secret keys here and nothing is decrypted; what was checked is carried by proof types
//! ([`VerifiedBlob`], [`VerifiedManifest`], [`Chain`]) that only the checks can make.

pub mod blob;
pub mod chain;
pub mod device;
pub mod encoding;
pub mod entry;
pub mod labels;
pub mod lane;
pub mod manifest;
pub mod run;
pub mod signature;
pub mod signin;
pub mod wrap;

pub use blob::{Blob, BlobHeader, SignedHeader, VerifiedBlob, VerifiedHeader};
pub use chain::{Chain, ChainError, Device, EpochRecord, Relation, Standing};
pub use device::{DeviceKind, DevicePublic, server_id};
pub use encoding::{DecodeError, Reader, Writer};
pub use entry::{Cut, Entry, EntryBody, Floor, NewEpoch, SignedEntry};
pub use lane::{Lane, LaneHead, LaneSeq, Replica};
pub use manifest::{Manifest, SignedManifest, VerifiedManifest};
pub use run::{Cover, Part, RunKind, RunStatement, SignedRun, VerifiedRun};
pub use signature::{Signature, VerifyError};
pub use wrap::{SealedEarlier, Wrap, WrapsError, check_wraps};
