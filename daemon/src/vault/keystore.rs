//! Where secrets lie: the desktop's keychain (Secret Service, macOS Keychain, Windows Credential
//! Manager) or a file that only the person can read.
//!
//! Which of them is decided when the account is set up and never changes silently: a locked
//! keychain is waited for, not replaced.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use minicbor::{Decode, Encode};
use tidings_crypto::{DeviceKeys, Keyring};
use tidings_proof::{Reader, Writer};
use zeroize::Zeroizing;

/// A kind of place for secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum KeystoreKind {
    /// The desktop's keychain.
    #[n(0)]
    Keychain,
    /// A file in the data directory with mode 0600.
    #[n(1)]
    File,
}

impl fmt::Display for KeystoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keychain => "keychain",
            Self::File => "file",
        })
    }
}

impl FromStr for KeystoreKind {
    type Err = KeystoreError;

    fn from_str(text: &str) -> Result<Self, KeystoreError> {
        match text {
            "keychain" => Ok(Self::Keychain),
            "file" => Ok(Self::File),
            _ => Err(KeystoreError::UnknownKind(text.chars().take(32).collect())),
        }
    }
}

/// Everything secret of this device.
#[derive(Debug)]
pub struct Secrets {
    /// The device's keys.
    pub keys: Arc<DeviceKeys>,
    /// The epoch secrets that it holds.
    pub keyring: Keyring,
}

/// Why secrets could not be read or kept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeystoreError {
    /// No such kind.
    #[error("`{0}` is not a keystore: choose `keychain` or `file`")]
    UnknownKind(String),
    /// The keychain does not answer, is locked or refuses.
    #[error("the keychain cannot be used now: {0}")]
    Keychain(String),
    /// The key file cannot be read or written.
    #[error("cannot use the key file {}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// The key file can be read by others.
    #[error("the key file {} can be read by others; make it private with `chmod 600`", .0.display())]
    NotPrivate(PathBuf),
    /// What is stored is not what this program writes.
    #[error("the stored keys are damaged: {0}")]
    Damaged(String),
}

/// Both places, for the store of one name.
#[derive(Debug, Clone)]
pub struct Keystore {
    file: PathBuf,
    /// Names the entry in the keychain: two homes of one person have two.
    entry: String,
}

/// The service that keychain entries are listed under.
const SERVICE: &str = "tidings";
/// How long a keychain may take to answer, a dialogue for its password included.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the first question may take, when it is only asked whether there is a keychain.
const PROBE: Duration = Duration::from_secs(5);
/// Version of the secrets' encoding.
const FORMAT: u8 = 1;
/// Largest key file that is read, in bytes.
const FILE_LIMIT: usize = 1 << 20;

impl Keystore {
    /// Both places: `file` in the data directory, and the keychain's entry of this store.
    pub fn new(file: impl Into<PathBuf>, store: &str) -> Self {
        Self { file: file.into(), entry: store.to_owned() }
    }

    /// The key file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The kind to use for a new account where the person chose none: the keychain if one answers.
    pub async fn choose(&self) -> KeystoreKind {
        let probe = format!("{}-probe", self.entry);
        let answers = within(PROBE, move || {
            let entry = keyring::Entry::new(SERVICE, &probe)?;
            entry.set_secret(b"probe")?;
            let found = entry.get_secret()?;
            entry.delete_credential()?;
            Ok(found == b"probe")
        });
        match answers.await {
            Ok(true) => KeystoreKind::Keychain,
            Ok(false) | Err(_) => KeystoreKind::File,
        }
    }

    /// Reads the secrets; none if there are none.
    ///
    /// # Errors
    /// [`KeystoreError`].
    pub async fn load(&self, kind: KeystoreKind) -> Result<Option<Secrets>, KeystoreError> {
        let bytes = match kind {
            KeystoreKind::File => read_private(&self.file)?,
            KeystoreKind::Keychain => {
                let name = self.entry.clone();
                within(PATIENCE, move || match keyring::Entry::new(SERVICE, &name)?.get_secret() {
                    Ok(secret) => Ok(Some(Zeroizing::new(secret))),
                    Err(keyring::Error::NoEntry) => Ok(None),
                    Err(error) => Err(error),
                })
                .await?
            }
        };
        bytes.map(|bytes| decode(&bytes)).transpose()
    }

    /// Keeps the secrets in place of what was there, durably.
    ///
    /// # Errors
    /// [`KeystoreError`]; what was there before stays.
    pub async fn save(&self, kind: KeystoreKind, secrets: &Secrets) -> Result<(), KeystoreError> {
        let bytes = encode(secrets);
        match kind {
            KeystoreKind::File => write_private(&self.file, &bytes),
            KeystoreKind::Keychain => {
                let name = self.entry.clone();
                within(PATIENCE, move || keyring::Entry::new(SERVICE, &name)?.set_secret(&bytes))
                    .await
            }
        }
    }
}

impl Keystore {
    /// Takes the secrets away for good; nothing happens where there are none.
    ///
    /// # Errors
    /// [`KeystoreError`]; they may still be there.
    pub async fn wipe(&self, kind: KeystoreKind) -> Result<(), KeystoreError> {
        match kind {
            KeystoreKind::File => wipe_private(&self.file),
            KeystoreKind::Keychain => {
                let name = self.entry.clone();
                within(PATIENCE, move || {
                    match keyring::Entry::new(SERVICE, &name)?.delete_credential() {
                        Err(keyring::Error::NoEntry) => Ok(()),
                        done => done,
                    }
                })
                .await
            }
        }
    }
}

fn encode(secrets: &Secrets) -> Zeroizing<Vec<u8>> {
    let (keys, keyring) = (secrets.keys.export(), secrets.keyring.export());
    let mut writer = Writer::with_capacity(9 + keys.len() + keyring.len());
    writer.u8(FORMAT).bytes(&keys).bytes(&keyring);
    Zeroizing::new(writer.finish())
}

fn decode(bytes: &[u8]) -> Result<Secrets, KeystoreError> {
    let damaged = |what: String| KeystoreError::Damaged(what);
    let mut reader = Reader::new(bytes);
    let format = reader.u8("a format").map_err(|error| damaged(error.to_string()))?;
    if format != FORMAT {
        return Err(damaged(format!("format {format} needs a newer Tidings")));
    }
    let keys = reader.bytes("keys", FILE_LIMIT).map_err(|error| damaged(error.to_string()))?;
    let ring =
        reader.bytes("a key ring", FILE_LIMIT).map_err(|error| damaged(error.to_string()))?;
    reader.finish().map_err(|error| damaged(error.to_string()))?;
    Ok(Secrets {
        keys: Arc::new(DeviceKeys::import(keys).map_err(|error| damaged(error.to_string()))?),
        keyring: Keyring::import(ring).map_err(|error| damaged(error.to_string()))?,
    })
}

/// Asks the keychain on a thread of its own: it may wait for a person, and must not hold up the
/// pool that disk reads run on.
async fn within<R: Send + 'static>(
    patience: Duration,
    ask: impl FnOnce() -> Result<R, keyring::Error> + Send + 'static,
) -> Result<R, KeystoreError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let started = std::thread::Builder::new().name("keychain".to_owned()).spawn(move || {
        // Nobody waits any more once the patience is over.
        let _ = sender.send(ask());
    });
    started.map_err(|error| KeystoreError::Keychain(error.to_string()))?;
    match tokio::time::timeout(patience, receiver).await {
        Ok(Ok(answer)) => answer.map_err(|error| KeystoreError::Keychain(plain(&error))),
        Ok(Err(_)) => Err(KeystoreError::Keychain("it failed".to_owned())),
        Err(_) => Err(KeystoreError::Keychain("it does not answer".to_owned())),
    }
}

/// What went wrong without the stored bytes that some errors carry.
fn plain(error: &keyring::Error) -> String {
    match error {
        keyring::Error::BadEncoding(_) | keyring::Error::BadDataFormat(..) => {
            "its entry is damaged".to_owned()
        }
        keyring::Error::NoDefaultStore => "there is none here".to_owned(),
        other => other.to_string(),
    }
}

fn read_private(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, KeystoreError> {
    use std::io::Read as _;

    let failed =
        |source: io::Error| KeystoreError::File { path: path.to_owned(), source: Arc::new(source) };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
            return Err(KeystoreError::NotPrivate(path.to_owned()));
        }
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(4 << 10));
    let limit = u64::try_from(FILE_LIMIT).unwrap_or(u64::MAX);
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// Writes beside the file, syncs, renames, syncs the directory: the old or the new content is
/// there whatever happens in between.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), KeystoreError> {
    use std::io::Write as _;

    let failed =
        |source: io::Error| KeystoreError::File { path: path.to_owned(), source: Arc::new(source) };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    // One left by a crash may have another mode.
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)?;
    match path.parent() {
        Some(dir) => std::fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed),
        None => Ok(()),
    }
}

/// Overwrites the file before it goes, as far as the disk's own workings let it.
fn wipe_private(path: &Path) -> Result<(), KeystoreError> {
    use std::io::Write as _;

    let failed =
        |source: io::Error| KeystoreError::File { path: path.to_owned(), source: Arc::new(source) };
    let mut file = match std::fs::OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let length = usize::try_from(file.metadata().map_err(failed)?.len()).unwrap_or(FILE_LIMIT);
    file.write_all(&vec![0; length.min(FILE_LIMIT)]).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    std::fs::remove_file(path).map_err(failed)?;
    match path.parent() {
        Some(dir) => std::fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidings_crypto::random;
    use tidings_wire::AccountId;

    fn secrets() -> Secrets {
        let keys = Arc::new(DeviceKeys::generate(&mut random::system()));
        Secrets { keys, keyring: Keyring::new(AccountId([7; 16])) }
    }

    #[tokio::test]
    async fn the_file_keeps_what_it_was_given_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let keystore = Keystore::new(dir.path().join("keys"), "s");
        assert!(keystore.load(KeystoreKind::File).await.unwrap().is_none());
        let secrets = secrets();
        let id = secrets.keys.id();
        for _ in 0..2 {
            keystore.save(KeystoreKind::File, &secrets).await.unwrap();
        }
        let found = keystore.load(KeystoreKind::File).await.unwrap().unwrap();
        assert_eq!(found.keys.id(), id);
        assert_eq!(found.keyring.account(), AccountId([7; 16]));
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "nothing is left beside it");

        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(keystore.file()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let open = std::fs::Permissions::from_mode(0o640);
            std::fs::set_permissions(keystore.file(), open).unwrap();
            let refused = keystore.load(KeystoreKind::File).await.unwrap_err();
            assert!(matches!(refused, KeystoreError::NotPrivate(_)), "{refused}");
        }
    }

    #[tokio::test]
    async fn wiped_secrets_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let keystore = Keystore::new(dir.path().join("keys"), "s");
        keystore.save(KeystoreKind::File, &secrets()).await.unwrap();
        for _ in 0..2 {
            keystore.wipe(KeystoreKind::File).await.unwrap();
            assert!(keystore.load(KeystoreKind::File).await.unwrap().is_none());
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_damaged_file_is_said_to_be_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let keystore = Keystore::new(dir.path().join("keys"), "s");
        for bytes in [&b""[..], b"\x02", b"\x01\0\0\0\xff", &[0xff; 100]] {
            write_private(keystore.file(), bytes).unwrap();
            let error = keystore.load(KeystoreKind::File).await.unwrap_err();
            assert!(matches!(error, KeystoreError::Damaged(_)), "{bytes:?}: {error}");
        }
    }
}
