//! The epoch secrets that a device holds, and the keys that come of them.

use std::collections::BTreeMap;
use std::fmt;

use subtle::ConstantTimeEq;
use tidings_proof::encoding::FORMAT;
use tidings_proof::wrap::SECRET_LEN;
use tidings_proof::{Chain, DecodeError, EpochRecord, Reader, SealedEarlier, Wrap, Writer, labels};
use tidings_wire::{AccountId, AppId, Epoch, TableTag};
use zeroize::Zeroizing;

use crate::derive::{self, Key};
use crate::keys::DeviceKeys;
use crate::random::{self, CryptoRng};
use crate::wrap;

/// The secret of one epoch. Wiped when dropped.
#[derive(Clone)]
pub struct EpochSecret(Zeroizing<[u8; SECRET_LEN]>);

impl EpochSecret {
    /// Draws a new one.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        Self(Zeroizing::new(random::array(rng)))
    }

    /// The secret with these bytes.
    pub fn from_bytes(bytes: [u8; SECRET_LEN]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// What the chain's entry says of it: HKDF(secret, commit).
    pub fn commit(&self) -> [u8; 32] {
        *derive::key(self.bytes(), labels::COMMIT)
    }

    /// The bytes themselves.
    pub(crate) fn bytes(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }
}

impl fmt::Debug for EpochSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EpochSecret(..)")
    }
}

/// Why a secret was not taken into a key ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// The chain belongs to another account.
    #[error("the device chain belongs to another account")]
    WrongAccount,
    /// The epoch is not in the chain; reading the chain on may help.
    #[error("epoch {0} is not in the device chain")]
    UnknownEpoch(Epoch),
    /// It does not open, or what it holds is not what the chain committed to: `bad_wrap`. One
    /// error for all of these, so that nobody learns by trying.
    #[error("the wrapped secret of epoch {0} is not the one in the device chain")]
    BadWrap(Epoch),
    /// The epoch that seals it is not held.
    #[error("the secret of epoch {0} is not here")]
    MissingEpoch(Epoch),
    /// Stored bytes are damaged.
    #[error("the stored key ring is damaged: {0}")]
    Damaged(#[from] DecodeError),
}

/// The secrets of an account that this device holds.
#[derive(Clone)]
pub struct Keyring {
    account: AccountId,
    secrets: BTreeMap<Epoch, EpochSecret>,
}

impl Keyring {
    /// A key ring without secrets.
    pub fn new(account: AccountId) -> Self {
        Self { account, secrets: BTreeMap::new() }
    }

    /// Takes a secret if it is the one that the chain committed to.
    ///
    /// # Errors
    /// [`KeyringError`]; the ring is then as before.
    pub fn insert(
        &mut self,
        chain: &Chain,
        epoch: Epoch,
        secret: EpochSecret,
    ) -> Result<(), KeyringError> {
        let record = self.record(chain, epoch)?;
        if !bool::from(secret.commit().ct_eq(&record.commit)) {
            return Err(KeyringError::BadWrap(epoch));
        }
        self.secrets.insert(epoch, secret);
        Ok(())
    }

    /// Opens a wrap to this device and takes its secret if the chain committed to it.
    ///
    /// # Errors
    /// [`KeyringError`].
    pub fn accept_wrap(
        &mut self,
        chain: &Chain,
        keys: &DeviceKeys,
        wrap: &Wrap,
    ) -> Result<(), KeyringError> {
        let record = self.record(chain, wrap.epoch)?;
        let secret = wrap::open(self.account, &record.commit, keys, wrap)
            .ok_or(KeyringError::BadWrap(wrap.epoch))?;
        self.insert(chain, wrap.epoch, secret)
    }

    /// Opens the secret of an earlier epoch with that of a later one, and takes it if the chain
    /// committed to both.
    ///
    /// # Errors
    /// [`KeyringError`].
    pub fn accept_earlier(
        &mut self,
        chain: &Chain,
        sealed: &SealedEarlier,
    ) -> Result<(), KeyringError> {
        let record = self.record(chain, sealed.epoch)?;
        if record.seals != Some((sealed.seals, sealed.hash())) {
            return Err(KeyringError::BadWrap(sealed.seals));
        }
        let sealing = self.secret(sealed.epoch).ok_or(KeyringError::MissingEpoch(sealed.epoch))?;
        let secret = wrap::open_earlier(self.account, sealing, sealed)
            .ok_or(KeyringError::BadWrap(sealed.seals))?;
        self.insert(chain, sealed.seals, secret)
    }

    /// What the chain of this ring's account says of an epoch.
    fn record<'a>(&self, chain: &'a Chain, epoch: Epoch) -> Result<&'a EpochRecord, KeyringError> {
        if chain.account() != self.account {
            return Err(KeyringError::WrongAccount);
        }
        chain.epochs().get(&epoch).ok_or(KeyringError::UnknownEpoch(epoch))
    }

    /// This ring with the secrets of `over`, which count where both hold one.
    #[must_use]
    pub fn joined(&self, over: &Self) -> Self {
        let mut joined = self.clone();
        joined.secrets.extend(over.secrets.iter().map(|(epoch, secret)| (*epoch, secret.clone())));
        joined
    }

    /// Takes from another ring every secret that the chain committed to and that is not held here.
    pub fn adopt(&mut self, chain: &Chain, from: &Self) {
        for (epoch, secret) in &from.secrets {
            if !self.contains(*epoch) {
                // One of an entry that did not come about fits no chain.
                let _ = self.insert(chain, *epoch, secret.clone());
            }
        }
    }

    /// The account.
    pub fn account(&self) -> AccountId {
        self.account
    }

    /// The newest epoch held.
    pub fn newest(&self) -> Option<Epoch> {
        self.secrets.last_key_value().map(|(epoch, _)| *epoch)
    }

    /// Whether an epoch's secret is held.
    pub fn contains(&self, epoch: Epoch) -> bool {
        self.secrets.contains_key(&epoch)
    }

    /// The epochs held, rising.
    pub fn epochs(&self) -> impl Iterator<Item = Epoch> {
        self.secrets.keys().copied()
    }

    /// The tag of a table: what the server knows instead of its name. The same for the account's
    /// life, as it comes of epoch 0.
    ///
    /// None as long as the secret of epoch 0 is not held.
    pub fn tag(&self, app: &AppId, table: &str) -> Option<TableTag> {
        let key = derive::app_key(self.secret(Epoch(0))?.bytes(), labels::TAG_KEY, app);
        let mac = derive::mac(&key, table.as_bytes());
        TableTag::from_slice(mac.first_chunk::<{ TableTag::LEN }>()?)
    }

    /// The bytes to keep: format, account, each epoch and its secret.
    pub fn export(&self) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::with_capacity(21 + self.secrets.len() * (4 + SECRET_LEN));
        writer.u8(FORMAT).raw(&self.account.0).count(self.secrets.len());
        for (epoch, secret) in &self.secrets {
            writer.u32(epoch.0).raw(secret.bytes());
        }
        Zeroizing::new(writer.finish())
    }

    /// Reads what [`Keyring::export`] wrote. The secrets were checked when they were taken.
    ///
    /// # Errors
    /// [`KeyringError::Damaged`].
    pub fn import(bytes: &[u8]) -> Result<Self, KeyringError> {
        let mut reader = Reader::new(bytes);
        reader.format("key ring format")?;
        let mut ring = Self::new(reader.account()?);
        for _ in 0..reader.count("epoch secrets", 4 + SECRET_LEN)? {
            let epoch = reader.epoch()?;
            ring.secrets.insert(epoch, EpochSecret::from_bytes(reader.array("an epoch secret")?));
        }
        reader.finish()?;
        Ok(ring)
    }

    /// A secret that is held.
    pub(crate) fn secret(&self, epoch: Epoch) -> Option<&EpochSecret> {
        self.secrets.get(&epoch)
    }

    /// The key that seals an app's blobs and parts in an epoch.
    pub(crate) fn sealing_key(&self, epoch: Epoch, app: &AppId) -> Option<Key> {
        Some(derive::app_key(self.secret(epoch)?.bytes(), labels::SEAL_KEY, app))
    }

    /// The key that seals names of devices in an epoch.
    pub(crate) fn name_key(&self, epoch: Epoch) -> Option<Key> {
        Some(derive::key(self.secret(epoch)?.bytes(), labels::NAME_KEY))
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("account", &self.account)
            .field("epochs", &self.secrets.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
