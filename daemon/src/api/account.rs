//! The account on the socket: making it, linking computers, listing them. Only the owner's token
//! may do this; apps have no business here.

use axum::Json;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use tidings_client::ErrorKind;
use tidings_client::remote::{ClientError, ServerUrl};
use tidings_crypto::pairing::PairingError;
use tidings_wire::Problem;
use tidings_wire::linking::{
    AccountAnswer, AddDevice, CreateAccount, DeviceInfo, DevicesAnswer, Login, LoginEvent, Recover,
    RecoverAnswer, RecoveryKit, RenameDevice, RevokeDevices,
};
use tidings_wire::sse::{Frame, PING};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Api;
use super::body::{self, JSON};
use super::error::{ApiError, Code};
use super::stream::{Step, respond};
use crate::sync::{LinkError, SetupRequest, Sync};
use crate::vault::VaultError;

/// What these routes share.
#[derive(Clone)]
struct Account {
    api: Api,
    sync: Sync,
    /// Linking goes on here when the one who asked has gone, so that it is not cut in half.
    tasks: TaskTracker,
}

/// The routes.
pub fn router(api: Api, sync: Sync, tasks: TaskTracker) -> Router {
    Router::new()
        .route("/v1/account", get(show).post(create))
        .route("/v1/login", post(login))
        .route("/v1/devices", get(devices))
        .route("/v1/devices/add", post(add))
        .route("/v1/recovery/kit", post(kit))
        .route("/v1/recover", post(recover))
        .route("/v1/devices/revoke", post(revoke))
        .route("/v1/devices/rename", post(rename))
        .with_state(Account { api, sync, tasks })
}

/// `GET /v1/account`.
async fn show(
    State(state): State<Account>,
    headers: HeaderMap,
) -> Result<Json<AccountAnswer>, ApiError> {
    state.api.gate().caller(&headers)?;
    state.sync.account().await?.map(Json).ok_or_else(|| LinkError::Missing.into())
}

/// `POST /v1/account`.
async fn create(
    State(state): State<Account>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<AccountAnswer>, ApiError> {
    let CreateAccount { url, invite, setup } = state.read(&headers, body).await?;
    let typed = url.clone();
    let (sync, request) = (state.sync.clone(), SetupRequest { url: address(&url)?, invite, setup });
    // Carried through even if the caller goes: half an account helps nobody.
    let made = state.spawn(async move { sync.create_account(request).await });
    finished(made).await.map(Json).map_err(|error| explain(error, &typed))
}

/// `POST /v1/login`: a stream of what happens, ended by `paired` or `error`.
async fn login(
    State(state): State<Account>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let Login { url, setup } = state.read(&headers, body).await?;
    let request = SetupRequest { url: address(&url)?, invite: None, setup };
    let (progress, events) = mpsc::channel(16);
    let sync = state.sync.clone();
    let task = state.spawn(async move {
        // Without a listener there is nobody to show the code to: the flow ends by itself then.
        if let Err(error) = sync.login(request, progress.clone()).await {
            let problem = explain(error.into(), &url).into_problem();
            let _ = progress.send(LoginEvent::Error(problem)).await;
        }
        Ok(())
    });
    let beat = state.api.config().stream_heartbeat;
    Ok(respond(LoginStream {
        events,
        beat,
        next_beat: Instant::now() + beat,
        stopping: state.api.stopping().clone(),
        _task: task,
        ended: false,
    }))
}

/// `GET /v1/devices`.
async fn devices(
    State(state): State<Account>,
    headers: HeaderMap,
) -> Result<Json<DevicesAnswer>, ApiError> {
    state.api.gate().caller(&headers)?;
    Ok(Json(DevicesAnswer { devices: state.sync.devices()? }))
}

/// `POST /v1/devices/add`.
async fn add(
    State(state): State<Account>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<DeviceInfo>, ApiError> {
    let AddDevice { code } = state.read(&headers, body).await?;
    let sync = state.sync.clone();
    let added = state.spawn(async move { sync.add_device(&code).await });
    Ok(Json(finished(added).await?))
}

/// `POST /v1/recovery/kit`.
async fn kit(
    State(state): State<Account>,
    headers: HeaderMap,
) -> Result<Json<RecoveryKit>, ApiError> {
    state.api.gate().caller(&headers)?;
    let sync = state.sync.clone();
    let made = state.spawn(async move { sync.make_kit().await });
    Ok(Json(finished(made).await?))
}

/// `POST /v1/recover`.
async fn recover(
    State(state): State<Account>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<RecoverAnswer>, ApiError> {
    let asked: Recover = state.read(&headers, body).await?;
    let sync = state.sync.clone();
    let recovered = state.spawn(async move { sync.recover(asked).await });
    Ok(Json(finished(recovered).await?))
}

/// `POST /v1/devices/revoke`.
async fn revoke(
    State(state): State<Account>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<DevicesAnswer>, ApiError> {
    let RevokeDevices { devices } = state.read(&headers, body).await?;
    let sync = state.sync.clone();
    let revoked = state.spawn(async move { sync.revoke_devices(&devices).await });
    Ok(Json(DevicesAnswer { devices: finished(revoked).await? }))
}

/// `POST /v1/devices/rename`.
async fn rename(
    State(state): State<Account>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<DeviceInfo>, ApiError> {
    let RenameDevice { device, name } = state.read(&headers, body).await?;
    let sync = state.sync.clone();
    let renamed = state.spawn(async move { sync.rename_device(&device, &name).await });
    Ok(Json(finished(renamed).await?))
}

impl Account {
    /// Carries on a call even if the caller goes, until the daemon stops.
    fn spawn<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, LinkError>> + Send + 'static,
    ) -> JoinHandle<Result<T, LinkError>> {
        let stopping = self.api.stopping().clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => Err(LinkError::Stopped),
                result = call => result,
            }
        })
    }

    /// Checks the caller, then reads a JSON body.
    async fn read<T: DeserializeOwned>(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<T, ApiError> {
        self.api.gate().caller(headers)?;
        body::media_type(headers, &[JSON])?;
        let bytes = body::read(headers, body, self.api.config().body_idle).await?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let code = if error.is_data() { Code::InvalidField } else { Code::BadJson };
            ApiError::new(code, error.to_string())
        })
    }
}

async fn finished<T>(task: JoinHandle<Result<T, LinkError>>) -> Result<T, ApiError> {
    match task.await {
        Ok(result) => result.map_err(ApiError::from),
        Err(error) => {
            tracing::error!(%error, "a call about the account failed");
            Err(ApiError::new(Code::Internal, "a fault in the daemon"))
        }
    }
}

/// The stream that answers a login.
struct LoginStream {
    events: mpsc::Receiver<LoginEvent>,
    beat: Duration,
    next_beat: Instant,
    stopping: CancellationToken,
    _task: JoinHandle<Result<(), LinkError>>,
    ended: bool,
}

impl Step for LoginStream {
    async fn step(mut self) -> Option<(Bytes, Self)> {
        if self.ended {
            return None;
        }
        tokio::select! {
            () = self.stopping.cancelled() => None,
            event = self.events.recv() => {
                let event = event?;
                self.ended = matches!(event, LoginEvent::Paired(_) | LoginEvent::Error(_));
                self.next_beat = Instant::now() + self.beat;
                let frame = match &event {
                    LoginEvent::Code(data) => Frame::new().json(Some(event.name()), None, data),
                    LoginEvent::Waiting(data) => Frame::new().json(Some(event.name()), None, data),
                    LoginEvent::Paired(data) => Frame::new().json(Some(event.name()), None, data),
                    LoginEvent::Error(data) => Frame::new().json(Some(event.name()), None, data),
                };
                Some((frame.ok()?.finish().into(), self))
            }
            () = tokio::time::sleep_until(self.next_beat) => {
                self.next_beat = Instant::now() + self.beat;
                Some((Bytes::from_static(PING), self))
            }
        }
    }
}

/// A server's address as it is used and shown: what was typed, with its scheme.
fn address(typed: &str) -> Result<String, LinkError> {
    Ok(typed.parse::<ServerUrl>()?.to_string())
}

/// Adds what the address as it was typed may have to do with a server that does not answer.
fn explain(error: ApiError, typed: &str) -> ApiError {
    let Problem { details, hint, .. } = error.problem();
    // The server said itself what is wrong, or its certificate did.
    let said = details.as_ref().is_some_and(|details| details.get("server").is_some());
    let said = said || hint.as_ref().is_some_and(|hint| hint.contains("--ca"));
    let hint = match typed.trim().split_once("://") {
        _ if error.problem().code != Code::UpstreamFailed || said => return error,
        Some(("http", _)) => "if the server speaks TLS, write https:// instead of http://",
        None => "without a scheme https:// is meant; a server on this computer may need http://",
        Some(_) => return error,
    };
    error.hint(hint)
}

impl From<LinkError> for ApiError {
    fn from(error: LinkError) -> Self {
        let message = error.to_string();
        match error {
            LinkError::Present => Self::new(Code::AccountPresent, message)
                .hint("`tidings status` shows it; a second account needs a home of its own"),
            LinkError::OtherAccount => Self::new(Code::AccountPresent, message)
                .hint("a second account needs a home of its own: add `--home DIR`"),
            LinkError::Missing => Self::new(Code::NoAccount, message)
                .hint("`tidings account create URL` makes one, `tidings login URL` joins one"),
            LinkError::Busy => Self::new(Code::MailboxTaken, message).retry_after(10),
            LinkError::Config(_) | LinkError::BadName => Self::new(Code::InvalidField, message),
            LinkError::Words(_) => Self::new(Code::InvalidField, message)
                .hint("type the twelve words of the recovery kit in their order"),
            LinkError::KitUsed => Self::new(Code::InvalidField, message)
                .hint("use the newest recovery kit; each works once"),
            LinkError::KitUnknown => Self::new(Code::InvalidField, message)
                .hint("compare the account's number and the words with the recovery kit"),
            LinkError::NoSuchDevice(_) => Self::new(Code::InvalidField, message)
                .hint("`tidings devices list` shows what the linked computers are called"),
            LinkError::Ambiguous(_) => Self::new(Code::InvalidField, message)
                .hint("name it by its id, which `tidings devices list` shows"),
            LinkError::OwnDevice => Self::new(Code::InvalidField, message)
                .hint("run `tidings devices revoke` on another linked computer"),
            LinkError::StillWriting => {
                Self::new(Code::UpstreamFailed, message).hint("try again in a minute")
            }
            LinkError::Server(error) => server(error),
            LinkError::Malformed(_) => Self::new(Code::UpstreamFailed, message)
                .hint("check that the URL is the server's; if it is, do not trust this server"),
            LinkError::Keystore(_) => Self::new(Code::KeysLocked, message)
                .hint("unlock the keychain, or choose `--keystore file`"),
            LinkError::Vault(VaultError::Revoked) => {
                Self::new(Code::NoAccount, message).hint("`tidings login URL` links it again")
            }
            LinkError::Vault(VaultError::Locked) => {
                Self::new(Code::KeysLocked, message).hint("unlock the keychain and try again")
            }
            LinkError::Vault(VaultError::Store(error)) => error.into(),
            LinkError::Vault(_) => Self::new(Code::UpstreamFailed, message),
            LinkError::Code(_) => Self::new(Code::InvalidField, message)
                .hint("type the code exactly as the other computer shows it"),
            LinkError::Pairing(PairingError::WrongCode) => Self::new(Code::PairWrongCode, message)
                .hint("run `tidings login URL` again on the new computer for a new code"),
            LinkError::Pairing(_) | LinkError::Expired | LinkError::Stopped => {
                Self::new(Code::PairEnded, message)
                    .hint("run `tidings login URL` again on the new computer for a new code")
            }
        }
    }
}

/// What a sync server said goes on in its own words.
fn server(error: ClientError) -> ApiError {
    match error {
        // A place in a mailbox is taken only by whoever typed the same code before.
        ClientError::Problem { problem, .. } if problem.code == Code::MailboxTaken => {
            LinkError::Expired.into()
        }
        ClientError::Certificate(_) => ApiError::new(Code::UpstreamFailed, error.to_string())
            .hint("if the server has a certificate of its own, add `--ca FILE` with its authority"),
        ClientError::Problem { problem, .. } => {
            let Problem { hint, retry_after, details, .. } = &*problem;
            let mut answer = Problem::new(Code::UpstreamFailed, problem.message.clone());
            answer.hint.clone_from(hint);
            answer.retry_after = *retry_after;
            let code = problem.code.as_str();
            answer.details = Some(serde_json::json!({ "server": code, "details": details }));
            answer.into()
        }
        error => {
            let mut answer = ApiError::new(Code::UpstreamFailed, error.to_string());
            if matches!(error, ClientError::Interrupted(_) | ClientError::Timeout) {
                answer = answer.details(serde_json::json!({ "outcome": "unknown" }));
            }
            match error.kind() {
                ErrorKind::Retry => answer.hint("check the URL and the network, then try again"),
                _ => answer,
            }
        }
    }
}
