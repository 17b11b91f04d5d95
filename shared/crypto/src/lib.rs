//! Keys, epochs, sealing, signing, pairing and the paper key: everything that needs a secret.
//!
//! Used by clients only; a server links `tidings-proof` and nothing of this. No IO and no disk:
//! randomness comes in as an argument ([`random::system`] outside of tests), bytes go out. Every
//! construction is composed from published ones; docs/protocol.md has each byte.

pub mod blob;
pub mod entries;
pub mod keyring;
pub mod keys;
pub mod manifest;
pub mod pairing;
pub mod paper;
pub mod random;
pub mod run;
pub mod signin;
pub mod wrap;

mod aead;
mod derive;
mod padding;

pub use blob::{OpenError, SealError, open_blob, seal_blob};
pub use entries::{BuildError, NewEntry};
pub use keyring::{EpochSecret, Keyring, KeyringError};
pub use keys::{DeviceKeys, ImportError};
pub use manifest::sign_manifest;
pub use paper::{PaperKey, PaperKeyError};
pub use run::{SealedPart, open_part, seal_part, sign_run};
pub use signin::answer_challenge;
