//! Every label: what keeps a signature, a hash or a key from counting for anything but its purpose.
//!
//! A label reads `tidings/FORMAT/PURPOSE` and stands, after its length as one byte, before
//! whatever is signed or derived. Nothing else in the project starts signed bytes or key info.

use std::fmt;

use crate::encoding::Writer;

/// A purpose that something is signed, hashed or derived for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Label(&'static str);

impl Label {
    /// The text of the label.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// An encoding that begins with this label.
    pub fn start(self) -> Writer {
        let mut writer = Writer::new();
        writer.short_text(self.0);
        writer
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Label({})", self.0)
    }
}

/// Defines the labels and the table of all.
macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: Label = Label($text);)*

        /// All of them.
        pub const ALL: &[Label] = &[$($name),*];
    };
}

labels! {
    /// Signed: a blob's header and body hash.
    BLOB = "tidings/1/blob";
    /// Signed: a manifest.
    MANIFEST = "tidings/1/manifest";
    /// Signed: an entry of a device chain.
    ENTRY = "tidings/1/entry";
    /// Signed by an added device: that it joins this account at this index.
    CO_SIGNATURE = "tidings/1/co-signature";
    /// Signed: the statement of a run.
    RUN = "tidings/1/run";
    /// Signed by a device: the answer to a challenge.
    SIGN_IN = "tidings/1/sign-in";
    /// Signed by a server: a challenge.
    CHALLENGE = "tidings/1/challenge";
    /// BLAKE3 key derivation context: a device's two public keys to its id.
    DEVICE_ID = "tidings/1/device-id";
    /// BLAKE3 key derivation context: a server's token key to its id.
    SERVER_ID = "tidings/1/server-id";
    /// Hashed: a sealed earlier secret.
    EARLIER_HASH = "tidings/1/earlier-hash";
    /// Associated data: a part of a run.
    RUN_PART = "tidings/1/run-part";
    /// Associated data: the secret of an earlier epoch.
    EARLIER_DATA = "tidings/1/earlier-data";
    /// Associated data: the name of a device.
    NAME_DATA = "tidings/1/name-data";
    /// HPKE info and associated data: an epoch secret wrapped to a device.
    WRAP = "tidings/1/wrap";
    /// HKDF info: the key that seals an app's blobs and parts in an epoch.
    SEAL_KEY = "tidings/1/seal-key";
    /// HKDF info: the key of an app's table tags.
    TAG_KEY = "tidings/1/tag-key";
    /// HKDF info: the key that seals names of devices in an epoch.
    NAME_KEY = "tidings/1/name-key";
    /// HKDF info: the key that seals the secret of an earlier epoch.
    EARLIER_KEY = "tidings/1/earlier-key";
    /// HKDF info: what an epoch's entry in the chain commits to.
    COMMIT = "tidings/1/commit";
    /// HKDF info: the signing key of a paper key.
    PAPER_SIGNING = "tidings/1/paper-signing";
    /// HKDF info: the wrapping key of a paper key.
    PAPER_WRAPPING = "tidings/1/paper-wrapping";
    /// PAKE identity: the computer that joins.
    PAIR_NEW = "tidings/1/pair-new";
    /// PAKE identity: the computer that is linked already.
    PAIR_OLD = "tidings/1/pair-old";
    /// Key confirmation: what both sides of a pairing saw.
    PAIR_TRANSCRIPT = "tidings/1/pair-transcript";
    /// HKDF info: the joining side's confirmation key.
    PAIR_CONFIRM_NEW = "tidings/1/pair-confirm-new";
    /// HKDF info: the linked side's confirmation key.
    PAIR_CONFIRM_OLD = "tidings/1/pair-confirm-old";
    /// HKDF info: the key of what the joining side sends.
    PAIR_KEY_NEW = "tidings/1/pair-key-new";
    /// HKDF info: the key of what the linked side sends.
    PAIR_KEY_OLD = "tidings/1/pair-key-old";
    /// Associated data: a sealed pairing message.
    PAIR_MESSAGE = "tidings/1/pair-message";
    /// BLAKE3 key derivation context: a server's token key to the key of its cursors.
    SERVER_CURSOR = "tidings/1/server-cursor";
    /// BLAKE3 key derivation context: an invite code to what a server keeps of it.
    SERVER_INVITE = "tidings/1/server-invite";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_label_begins_another() {
        for (at, label) in ALL.iter().enumerate() {
            let own = label.start().finish();
            assert!(label.as_str().starts_with("tidings/1/"));
            for (other_at, other) in ALL.iter().enumerate() {
                assert!(at == other_at || !other.start().finish().starts_with(&own), "{label:?}");
            }
        }
    }
}
