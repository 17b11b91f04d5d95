//! The one gate: nothing reads or writes the replica but with an [`Access`] that was made here.
//!
//! Today the owner's token opens everything. Grants will be judged in [`Gate::access`], and no
//! route will have to change for it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use tidings_client::socket::OWNER_TOKEN_NAME;
use tidings_tables::{RowId, TableName};
use tidings_wire::AppId;
use tidings_wire::local::{CLIENT_HEADER, LogPosition, Origin};
use tokio::sync::watch;
use uuid::{ContextV7, Timestamp, Uuid};
use zeroize::Zeroizing;

use super::Api;
use super::error::{ApiError, Code};
use crate::replica::{Operation, Replica, WriteError, WriteRequest, Written};
use crate::store::{Snapshot, StoreError};

/// The owner's token: whoever can read its file owns the data anyway.
pub struct OwnerToken {
    text: Zeroizing<String>,
}

impl OwnerToken {
    /// Reads the token from its file, or makes one there that only the owner can read. The
    /// caller holds the store's lock.
    ///
    /// # Errors
    /// The file cannot be read or written, or does not hold a token.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(OWNER_TOKEN_NAME);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let text = Zeroizing::new(text.trim_end().to_owned());
                let hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
                if text.len() != 64 || !hex {
                    let reason = format!("{} holds no token; delete it", path.display());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
                Ok(Self { text })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::create(dir, &path),
            Err(error) => Err(error),
        }
    }

    fn create(dir: &Path, path: &Path) -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut()).map_err(io::Error::other)?;
        let text: Zeroizing<String> =
            Zeroizing::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        // Whole or not there: a half-written token would lock its owner out.
        let temporary = dir.join(".owner.token.new");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        fs::File::open(dir)?.sync_all()?;
        Ok(Self { text })
    }

    /// The token, for a client that shares the process.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Compares without telling by its time where a guess goes wrong.
    fn is(&self, presented: &str) -> bool {
        blake3::hash(presented.as_bytes()) == blake3::hash(self.text.as_bytes())
    }
}

impl std::fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnerToken(..)")
    }
}

/// What a caller wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// List and read rows.
    Read,
    /// Change rows.
    Write,
}

/// Whoever presented a token that is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The program's name, as `origin` repeats it.
    client: String,
}

impl Caller {
    /// Whether it is the person whose data this is, and not an app.
    pub fn is_owner(&self) -> bool {
        true
    }
}

/// The gate. It holds the replica, so that nobody comes by it another way.
pub struct Gate {
    replica: Replica,
    owner: OwnerToken,
    ids: Arc<Mutex<ContextV7>>,
}

impl Gate {
    pub(super) fn new(replica: Replica, owner: OwnerToken) -> Self {
        Self { replica, owner, ids: Arc::new(Mutex::new(ContextV7::new())) }
    }

    /// Who calls, by the bearer token.
    ///
    /// # Errors
    /// `auth.required`, `auth.token_invalid`.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let presented = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or(""));
        self.judge(headers, presented.and_then(bearer))
    }

    /// Who calls, by the bearer token or, where a stream is opened, by the one in its query.
    ///
    /// # Errors
    /// As [`Gate::caller`].
    pub fn stream_caller(
        &self,
        headers: &HeaderMap,
        query_token: Option<&str>,
    ) -> Result<Caller, ApiError> {
        match query_token {
            Some(token) if !headers.contains_key(AUTHORIZATION) => self.judge(headers, Some(token)),
            _ => self.caller(headers),
        }
    }

    fn judge(&self, headers: &HeaderMap, token: Option<&str>) -> Result<Caller, ApiError> {
        let Some(token) = token else {
            return Err(ApiError::new(Code::AuthRequired, "this needs a token")
                .hint("send `Authorization: Bearer TOKEN`; the owner's token is in the daemon's data directory"));
        };
        if !self.owner.is(token) {
            return Err(ApiError::new(Code::TokenInvalid, "the token is not one of this daemon"));
        }
        Ok(Caller { client: client_name(headers)? })
    }

    /// Access to an app's tables, for one request or one stream.
    ///
    /// # Errors
    /// `grant.denied`.
    pub fn access(
        &self,
        caller: &Caller,
        app: &AppId,
        tables: &[&TableName],
        need: Need,
    ) -> Result<Access, ApiError> {
        // The owner may do everything with every table; a grant is looked up here.
        let _ = (tables, need);
        Ok(Access {
            replica: self.replica.clone(),
            ids: Arc::clone(&self.ids),
            app: app.clone(),
            client: caller.client.clone(),
        })
    }

    /// The apps of this replica, for callers that may list them.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn read_all<R: Send + 'static>(
        &self,
        _: &Caller,
        read: impl FnOnce(&Snapshot) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, ApiError> {
        Ok(self.replica.read(read).await?)
    }

    /// Whether the store takes writes.
    pub fn is_healthy(&self) -> bool {
        let store = self.replica.store();
        store.failure().is_none() && store.disk().trouble().is_none()
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The name in the client header: short and printable, because it goes into every event.
fn client_name(headers: &HeaderMap) -> Result<String, ApiError> {
    const LONGEST: usize = 64;
    let Some(value) = headers.get(HeaderName::from_static(CLIENT_HEADER)) else {
        return Ok("owner".to_owned());
    };
    let name = value.to_str().ok().filter(|name| (1..=LONGEST).contains(&name.len()));
    match name {
        Some(name) if name != Origin::REMOTE => Ok(name.to_owned()),
        _ => Err(ApiError::invalid(
            CLIENT_HEADER,
            "the client's name must be 1 to 64 printable ASCII characters and not `remote`",
        )),
    }
}

impl FromRequestParts<Api> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        api.gate().caller(&parts.headers)
    }
}

/// What a caller may do with one app; the only way to its rows.
#[derive(Clone)]
pub struct Access {
    replica: Replica,
    ids: Arc<Mutex<ContextV7>>,
    app: AppId,
    client: String,
}

impl Access {
    /// The app.
    pub fn app(&self) -> &AppId {
        &self.app
    }

    /// Names the store that positions belong to.
    pub fn store_id(&self) -> String {
        self.replica.store().id()
    }

    /// The time, in Unix milliseconds.
    pub fn now(&self) -> i64 {
        self.replica.clock().now()
    }

    /// The head of the app's log, to wait on.
    pub fn head(&self) -> watch::Receiver<LogPosition> {
        self.replica.head(&self.app)
    }

    /// Reads from a view of this moment.
    ///
    /// # Errors
    /// What the reading code answered, or that the store cannot be read.
    pub async fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&Snapshot, &AppId) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, ApiError> {
        let app = self.app.clone();
        Ok(self.replica.read(move |source| read(source, &app)).await?)
    }

    /// Stores a transaction.
    ///
    /// # Errors
    /// Nothing was stored then.
    pub async fn write(
        &self,
        operations: Vec<Operation>,
        atomic: bool,
        mutation_id: Option<String>,
    ) -> Result<Written, WriteError> {
        let origin = Origin { client: self.client.clone(), mutation_id };
        self.replica.write(&self.app, WriteRequest { operations, atomic, origin }).await
    }

    /// Notes what the app declares about a table.
    ///
    /// # Errors
    /// It could not be stored.
    pub async fn declare(&self, table: &TableName, declared: String) -> Result<(), ApiError> {
        self.replica.declare(&self.app, table, declared).await.map_err(ApiError::from)
    }

    /// An id for a row whose app did not choose one: a UUIDv7, which sorts by time and, of those
    /// made here, in the order of their making.
    ///
    /// # Errors
    /// Never for a working system.
    pub fn new_row_id(&self) -> Result<RowId, ApiError> {
        let millis = u64::try_from(self.now()).unwrap_or(0);
        let nanos = u32::try_from(millis % 1_000 * 1_000_000).unwrap_or(0);
        let id = {
            let context = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
            Uuid::new_v7(Timestamp::from_unix(&*context, millis / 1_000, nanos))
        };
        RowId::new(id.to_string()).map_err(|error| {
            tracing::error!(%error, "no row id could be made");
            ApiError::new(Code::Internal, "no row id could be made")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_made_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let made = OwnerToken::open(dir.path()).unwrap();
        let path = dir.path().join(OWNER_TOKEN_NAME);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = OwnerToken::open(dir.path()).unwrap();
        assert!(read.is(made.reveal()));
        assert!(!read.is("") && !read.is(&made.reveal()[1..]));
        assert_eq!(format!("{read:?}"), "OwnerToken(..)");
        fs::write(&path, "short").unwrap();
        let error = OwnerToken::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("holds no token"), "{error}");
    }

    #[test]
    fn bearer_tokens() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        assert_eq!(bearer("Basic abc"), None);
        assert_eq!(bearer("Bearer"), None);
    }
}
