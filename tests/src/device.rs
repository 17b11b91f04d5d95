//! A real daemon in a home of its own, and its typed client.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use http::Method;
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;
use tidings_client::local::{Client, EventStream, LocalError, OldRecord, Request, WatchOptions};
use tidings_client::socket::{OWNER_TOKEN_NAME, SOCKET_NAME};
use tidings_wire::AppId;
use tidings_wire::linking::{
    AccountAnswer, AddDevice, CreateAccount, DevicesAnswer, Login, LoginEvent, Setup,
};
use tidings_wire::local::{
    AppStatus, Change, QueryRequest, Record, StatusAnswer, SyncState, WriteAnswer,
};
use tidings_wire::sse::Event;

use crate::process::{Process, command};
use crate::programs;
use crate::wait::{DEADLINE, eventually, within};

/// A daemon. It keeps its home over restarts.
#[derive(Debug)]
pub struct Device {
    name: String,
    dir: TempDir,
    settings: Vec<String>,
    environment: Vec<(String, String)>,
    process: Option<Process>,
    client: Option<Client>,
}

/// Settings that make tests short where people are patient.
const QUICK: [&str; 4] = [
    "sync.backoff_first=50ms",
    "sync.backoff_max=500ms",
    "sync.refetch_second=200ms",
    "sync.refetch_third=500ms",
];

impl Device {
    /// A home without a daemon yet.
    ///
    /// # Panics
    /// There is no room for a directory.
    pub fn new(name: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("tidings-").tempdir().expect("a directory");
        Self {
            name: name.to_owned(),
            dir,
            settings: QUICK.map(str::to_owned).to_vec(),
            environment: Vec::new(),
            process: None,
            client: None,
        }
    }

    /// A home with its daemon, without an account.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start(name: &str) -> Self {
        let mut device = Self::new(name);
        device.resume().await;
        device
    }

    /// Adds a setting, `KEY=VALUE`, for the next start.
    #[must_use]
    pub fn set(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Adds a variable for the next start, or replaces it.
    pub fn env(&mut self, name: &str, value: impl Into<String>) {
        self.unset_env(name);
        self.environment.push((name.to_owned(), value.into()));
    }

    /// Takes a variable away from the next start.
    pub fn unset_env(&mut self, name: &str) {
        self.environment.retain(|(known, _)| known != name);
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its home.
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.home().join(SOCKET_NAME)
    }

    /// The command that starts its daemon, with its settings and variables.
    pub fn daemon_command(&self) -> Command {
        let mut command = self.command(&["daemon"]);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The command line on this home.
    pub fn command(&self, verb: &[&str]) -> Command {
        let mut command = command(programs::tidings());
        command.env("HOME", self.dir.path()).arg("--home").arg(self.home()).args(verb);
        command
    }

    /// Runs a verb to its end and gives what it printed.
    ///
    /// # Panics
    /// It takes too long.
    pub fn run(&self, verb: &[&str]) -> (ExitStatus, String) {
        let name = format!("tidings {}", verb.join(" "));
        Process::start(name, &mut self.command(verb)).finished(DEADLINE)
    }

    /// Starts the daemon in the same home.
    ///
    /// # Panics
    /// It runs already, or does not start.
    pub async fn resume(&mut self) {
        self.resume_with(|_| {}).await;
    }

    /// The same; `prepare` may change the command.
    ///
    /// # Panics
    /// As [`Device::resume`].
    pub async fn resume_with(&mut self, prepare: impl FnOnce(&mut Command)) {
        self.begin_with(prepare);
        let served = self.served().await;
        served.unwrap_or_else(|log| panic!("{} ended instead of serving:\n{log}", self.name));
    }

    /// Waits until a daemon that was begun serves.
    ///
    /// # Errors
    /// What it said before it ended instead.
    ///
    /// # Panics
    /// It was not begun, or does neither.
    pub async fn served(&mut self) -> Result<(), String> {
        let (home, socket) = (self.home(), self.socket());
        let what = format!("{} answers", self.name);
        let process = self.process();
        let answered = eventually(&what, DEADLINE, async || match owner(&home, &socket).await {
            Ok(client) => Ok(Ok(client)),
            Err(_) if !process.runs() => Ok(Err(process.log())),
            Err(error) => Err(error),
        })
        .await;
        self.client = Some(answered?);
        Ok(())
    }

    /// Starts the daemon without waiting until it serves.
    ///
    /// # Panics
    /// It runs already.
    pub fn begin_with(&mut self, prepare: impl FnOnce(&mut Command)) {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let mut command = self.daemon_command();
        prepare(&mut command);
        self.process = Some(Process::start(&self.name, &mut command));
    }

    /// Waits for a daemon in this home that somebody else started.
    ///
    /// # Panics
    /// It does not answer.
    pub(crate) async fn adopt(&mut self) {
        let (home, socket) = (self.home(), self.socket());
        let what = format!("{} answers", self.name);
        let client = eventually(&what, DEADLINE, async || owner(&home, &socket).await).await;
        self.client = Some(client);
    }

    /// The settings of the next start.
    pub(crate) fn settings(&self) -> &[String] {
        &self.settings
    }

    /// Stops the daemon in order.
    ///
    /// # Panics
    /// It does not stop well.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(DEADLINE);
        }
    }

    /// Kills the daemon, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// The running program.
    ///
    /// # Panics
    /// It does not run.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the daemon does not run")
    }

    /// What the daemon logged since its start.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    /// The owner's client.
    ///
    /// # Panics
    /// The daemon was never started.
    pub fn client(&self) -> &Client {
        self.client.as_ref().expect("the daemon was never started")
    }

    // The account.

    /// Makes an account on a server, with this device as its first.
    ///
    /// # Panics
    /// The daemon or the server refuses.
    pub async fn create_account(&self, url: &str) -> AccountAnswer {
        self.try_create_account(url, None)
            .await
            .unwrap_or_else(|error| panic!("{}: no account: {error}", self.name))
    }

    /// The same, perhaps with an invite, and with the refusal.
    ///
    /// # Errors
    /// The daemon's.
    pub async fn try_create_account(
        &self,
        url: &str,
        invite: Option<String>,
    ) -> Result<AccountAnswer, LocalError> {
        let request = CreateAccount { url: url.to_owned(), invite, setup: self.setup() };
        let request = Request::new(Method::POST, "/v1/account").json(&request)?;
        self.client().request(request).await?.json()
    }

    /// Links a new device to this one's account, by the code that the new one shows.
    ///
    /// # Panics
    /// A daemon or the server refuses.
    pub async fn link(&self, new: &Self, url: &str) -> AccountAnswer {
        let login = Login { url: url.to_owned(), setup: new.setup() };
        let request = Request::new(Method::POST, "/v1/login").json(&login).expect("JSON");
        let mut events = new.client().stream(request).await.expect("a login");
        let code = loop {
            match login_event(&mut events).await {
                LoginEvent::Code(shown) => break shown.code,
                LoginEvent::Waiting(_) => {}
                other => panic!("{}: no code but {other:?}", new.name),
            }
        };
        let request = Request::new(Method::POST, "/v1/devices/add").json(&AddDevice { code });
        let adding = self.client().request(request.expect("JSON"));
        let paired = async {
            loop {
                match login_event(&mut events).await {
                    LoginEvent::Paired(account) => return account,
                    LoginEvent::Waiting(_) => {}
                    other => panic!("{}: not linked but {other:?}", new.name),
                }
            }
        };
        let (added, account) = tokio::join!(adding, within("linking", DEADLINE, paired));
        added.unwrap_or_else(|error| panic!("{}: adding {}: {error}", self.name, new.name));
        account
    }

    /// The account's devices.
    ///
    /// # Panics
    /// The daemon refuses.
    pub async fn devices(&self) -> DevicesAnswer {
        let answer = self.client().request(Request::new(Method::GET, "/v1/devices")).await;
        answer.and_then(|reply| reply.json()).expect("the devices")
    }

    fn setup(&self) -> Setup {
        let name = Some(self.name.clone());
        Setup { authority: None, name, keystore: Some("file".to_owned()) }
    }

    // The status.

    /// The status now.
    ///
    /// # Panics
    /// The daemon does not answer.
    pub async fn status(&self) -> StatusAnswer {
        self.client().status().await.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Follows the status until it is as wished.
    ///
    /// # Panics
    /// It was not by the deadline; the text has the last status.
    pub async fn status_until(
        &self,
        what: &str,
        mut wished: impl FnMut(&StatusAnswer) -> bool,
    ) -> StatusAnswer {
        let mut last = None;
        let watch = async {
            let mut events = self.client().watch_status().await.expect("a stream of the status");
            while let Some(event) = events.next().await.expect("the stream of the status") {
                let Ok(status) = serde_json::from_str::<StatusAnswer>(&event.data) else {
                    continue;
                };
                if wished(&status) {
                    return Some(status);
                }
                last = Some(status);
            }
            None
        };
        match tokio::time::timeout(DEADLINE, watch).await {
            Ok(Some(status)) => status,
            Ok(None) => panic!("{}: the status ended before: {what}", self.name),
            Err(_) => panic!("{}: not in time: {what}; last: {last:#?}", self.name),
        }
    }

    /// Waits until everything is pushed and pulled, as far as the server has told.
    ///
    /// # Panics
    /// It takes too long.
    pub async fn synced(&self) -> StatusAnswer {
        self.status_until("synced, nothing pending", |status| {
            status.state == SyncState::Synced
                && status.apps.iter().all(|app| app.pending == 0 && app.complete)
        })
        .await
    }

    /// The status of one app.
    ///
    /// # Panics
    /// It has no such app.
    pub async fn app_status(&self, app: &AppId) -> AppStatus {
        let status = self.status().await;
        let found = status.apps.iter().find(|found| found.id == *app).cloned();
        found.unwrap_or_else(|| panic!("{} has no {app}: {status:?}", self.name))
    }

    // Rows.

    /// Creates a row.
    ///
    /// # Panics
    /// The daemon refuses.
    pub async fn insert(&self, app: &AppId, table: &str, row: &impl Serialize) -> WriteAnswer {
        let written = self.client().insert(app, table, row).await;
        written.unwrap_or_else(|error| panic!("{}: insert into {table}: {error}", self.name))
    }

    /// Creates or replaces a row.
    ///
    /// # Panics
    /// The daemon refuses.
    pub async fn put(
        &self,
        app: &AppId,
        table: &str,
        id: &str,
        row: &impl Serialize,
    ) -> WriteAnswer {
        let written = self.client().put(app, table, id, row, None).await;
        written.unwrap_or_else(|error| panic!("{}: put {table}/{id}: {error}", self.name))
    }

    /// Sends a body as it is, which no typed call could make.
    ///
    /// # Errors
    /// The daemon's.
    pub async fn send_raw(
        &self,
        method: Method,
        path: &str,
        body: impl Into<bytes::Bytes>,
    ) -> Result<tidings_client::local::Reply, LocalError> {
        let request = Request::new(method, path).body("application/json", body);
        self.client().request(request).await
    }

    /// A row without its metadata; none where there is no such row.
    ///
    /// # Panics
    /// The daemon fails.
    pub async fn row(&self, app: &AppId, table: &str, id: &str) -> Option<Record> {
        match self.client().row(app, table, id).await {
            Ok(mut record) => {
                record.remove(tidings_wire::local::VER);
                Some(record)
            }
            Err(LocalError::Problem { status: 404, .. }) => None,
            Err(error) => panic!("{}: {table}/{id}: {error}", self.name),
        }
    }

    /// Every row of a table by id, without metadata; none where there is no such table.
    ///
    /// # Panics
    /// The daemon fails.
    pub async fn rows(&self, app: &AppId, table: &str) -> Vec<Record> {
        let mut rows = Vec::new();
        let mut after = None;
        loop {
            let query = QueryRequest { limit: Some(1_000), after, ..QueryRequest::default() };
            let page = match self.client().query(app, table, &query).await {
                Ok(page) => page,
                Err(LocalError::Problem { status: 404, .. }) => return rows,
                Err(error) => panic!("{}: {table}: {error}", self.name),
            };
            rows.extend(page.records.into_iter().map(|mut record| {
                record.remove(tidings_wire::local::VER);
                record
            }));
            after = page.next;
            if !page.has_next {
                return rows;
            }
        }
    }

    /// Waits until a row is as wished.
    ///
    /// # Panics
    /// It was not by the deadline.
    pub async fn row_becomes(&self, app: &AppId, table: &str, id: &str, wished: &Value) {
        let what = format!("{}: {table}/{id} is {wished}", self.name);
        eventually(&what, DEADLINE, async || {
            let found = self.row(app, table, id).await.map(Value::Object);
            if found.as_ref() == Some(wished) { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }

    /// Waits until a table has so many rows, and gives them.
    ///
    /// # Panics
    /// It had not by the deadline.
    pub async fn rows_become(&self, app: &AppId, table: &str, count: usize) -> Vec<Record> {
        let what = format!("{}: {table} has {count} rows", self.name);
        eventually(&what, DEADLINE, async || {
            let rows = self.rows(app, table).await;
            if rows.len() == count { Ok(rows) } else { Err(format!("{} rows", rows.len())) }
        })
        .await
    }

    /// Follows a table by `/stream`, from now on, with old records.
    ///
    /// # Panics
    /// The daemon refuses.
    pub async fn follow(&self, app: &AppId, table: &str) -> Follower {
        let options = WatchOptions { old: Some(OldRecord::Full), ..WatchOptions::default() };
        let stream = self.client().watch(app, &[table.to_owned()], &options).await;
        let mut follower = Follower {
            name: format!("{}: {table}", self.name),
            stream: stream.unwrap_or_else(|error| panic!("{}: {table}: {error}", self.name)),
        };
        let first = follower.event().await;
        assert_eq!(first.name, "connected", "{}: {first:?}", follower.name);
        follower
    }
}

/// A stream of a table's changes.
#[derive(Debug)]
pub struct Follower {
    name: String,
    stream: EventStream,
}

impl Follower {
    /// The next event, whatever it is.
    ///
    /// # Panics
    /// None came by the deadline, or the stream ended.
    pub async fn event(&mut self) -> Event {
        let what = format!("{}: an event", self.name);
        let next = within(&what, DEADLINE, self.stream.next()).await;
        next.unwrap_or_else(|error| panic!("{}: {error}", self.name))
            .unwrap_or_else(|| panic!("{}: the stream ended", self.name))
    }

    /// The next change.
    ///
    /// # Panics
    /// Something else came.
    pub async fn change(&mut self) -> Change {
        let event = self.event().await;
        let change = serde_json::from_str(&event.data);
        change.unwrap_or_else(|error| panic!("{}: {error}: {event:?}", self.name))
    }

    /// What comes within a time that is long enough for what must not come.
    ///
    /// # Panics
    /// The stream failed.
    pub async fn event_within(&mut self, time: Duration) -> Option<Event> {
        let next = tokio::time::timeout(time, self.stream.next()).await.ok()?;
        next.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// The stream itself.
    pub fn stream(&mut self) -> &mut EventStream {
        &mut self.stream
    }
}

/// The owner's client of a home, once its daemon answers.
async fn owner(home: &Path, socket: &Path) -> Result<Client, String> {
    let token = std::fs::read_to_string(home.join(OWNER_TOKEN_NAME));
    let token = token.map_err(|error| format!("no token yet: {error}"))?;
    let client = Client::new(socket).with_token(token.trim()).map_err(|error| error.to_string())?;
    client.status().await.map_err(|error| error.to_string())?;
    Ok(client)
}

async fn login_event(events: &mut EventStream) -> LoginEvent {
    loop {
        let event = within("an event of the login", DEADLINE, events.next()).await;
        let event = event.expect("the login's stream").expect("the login's stream ended");
        match LoginEvent::read(&event.name, &event.data).expect("an event of a login") {
            Some(LoginEvent::Error(problem)) => panic!("the login failed: {problem}"),
            Some(event) => return event,
            None => {}
        }
    }
}
