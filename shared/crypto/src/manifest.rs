//! Signing manifests.

use tidings_proof::{Manifest, SignedManifest};
use tidings_wire::limits;

use crate::blob::SealError;
use crate::keys::DeviceKeys;

/// Signs a manifest of this device.
///
/// # Errors
/// [`SealError`] when it names another device or would be too large.
pub fn sign_manifest(keys: &DeviceKeys, manifest: Manifest) -> Result<SignedManifest, SealError> {
    if manifest.replica.device != keys.id() {
        return Err(SealError::WrongDevice(manifest.replica.device));
    }
    let signature = keys.sign(&manifest.signed_bytes());
    let signed = SignedManifest { manifest, signature };
    if signed.encode().len() > limits::MANIFEST {
        return Err(SealError::TooLarge { limit: limits::MANIFEST });
    }
    Ok(signed)
}
