//! What the demo plays on: a directory of its own, a server behind a recording relay, devices.
//!
//! [`Stage::close`] ends every process and removes the directory, whatever phase it was in; what
//! is dropped without it is killed.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidings_client::socket::{OWNER_TOKEN_NAME, Places};

use super::certificate::Authority;
use super::program::Program;
use super::relay::Relay;
use crate::cli::connect::Local;
use crate::cli::failure::Failure;

/// Name of the server's program.
const SERVER: &str = "tidings-server";
/// How long a program may take to start.
const START: Duration = Duration::from_secs(30);

/// Everything that runs.
#[derive(Debug)]
pub struct Stage {
    dir: TempDir,
    /// Whether the programs log in detail.
    detailed: bool,
    /// Everything that was started, in this order, from the moment that it was: whatever moment
    /// the demo is stopped in, nothing is forgotten.
    programs: Vec<Program>,
    relay: Option<Relay>,
    devices: Vec<Device>,
}

/// One device: a home and its daemon.
#[derive(Debug)]
pub struct Device {
    /// Its client.
    pub local: Local,
    /// Its directories.
    pub places: Places,
    name: &'static str,
}

impl Device {
    /// Writes the header that opens the socket, for `curl -H @FILE`; only this user can read it.
    ///
    /// # Errors
    /// The token cannot be read, or the file not be written.
    pub fn write_header(&self, path: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::demo("preparing the lines to try", error);
        let token = self.places.data.join(OWNER_TOKEN_NAME);
        let token = std::fs::read_to_string(token).map_err(failed)?;
        std::fs::write(path, format!("authorization: Bearer {}\n", token.trim())).map_err(failed)
    }
}

impl Stage {
    /// An empty stage in a fresh directory that only this user can enter.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(detailed: bool) -> Result<Self, Failure> {
        let dir = tempfile::Builder::new()
            .prefix("tidings-demo-")
            .tempdir()
            .map_err(|error| Failure::io("Making a directory for the demo", &error))?;
        Ok(Self { dir, detailed, programs: Vec::new(), relay: None, devices: Vec::new() })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What the server keeps, its log included.
    pub fn server_dir(&self) -> PathBuf {
        self.dir().join("server")
    }

    /// Every byte that crossed the wire.
    pub fn recording(&self) -> PathBuf {
        self.dir().join("wire")
    }

    /// The authority's certificate, which devices trust.
    pub fn authority_file(&self) -> PathBuf {
        self.dir().join("authority.pem")
    }

    /// The URL that devices are told: the relay's. By its number: a bare system has no `localhost`.
    pub fn url(&self) -> String {
        let port = self.relay.as_ref().map_or(0, |relay| relay.address().port());
        format!("https://127.0.0.1:{port}")
    }

    /// The devices in the order of their start.
    pub fn device(&self, index: usize) -> Result<&Device, Failure> {
        self.devices.get(index).ok_or_else(|| Failure::unexpected("a device is not running"))
    }

    /// Starts the server with certificates made now, and the relay in front of it.
    ///
    /// # Errors
    /// There is no server program, or it does not start.
    pub async fn start_server(&mut self) -> Result<(), Failure> {
        let program = server_program().ok_or_else(Failure::no_server_program)?;
        let starting = "starting the server";
        let io = |error: std::io::Error| Failure::demo(starting, error);
        let authority = Authority::new().map_err(|error| Failure::demo(starting, error))?;
        let [own, relays] = [authority.issue(), authority.issue()];
        let own = own.map_err(|error| Failure::demo(starting, error))?;
        let relays = relays.map_err(|error| Failure::demo(starting, error))?;
        std::fs::write(self.authority_file(), authority.pem()).map_err(io)?;
        let [certificate, key] = [self.dir().join("server.pem"), self.dir().join("server.key")];
        std::fs::write(&certificate, own.certificate).map_err(io)?;
        std::fs::write(&key, own.key).map_err(io)?;
        std::fs::create_dir_all(self.server_dir()).map_err(io)?;

        let store = self.store();
        let fixed =
            ["serve", "--json", "--listen", "127.0.0.1:0", "--store", &store].map(OsStr::new);
        let tls = [
            OsStr::new("--tls-cert"),
            certificate.as_os_str(),
            OsStr::new("--tls-key"),
            key.as_os_str(),
        ];
        let log = self.server_dir().join("server.log");
        let arguments = fixed.into_iter().chain(tls);
        let server = self.start("the server", &program, arguments, &log).map_err(io)?;
        let address = listening(server).await?;
        let recording = self.recording();
        let relay = Relay::start(&authority, &relays, address, &recording).await;
        self.relay = Some(relay.map_err(io)?);
        Ok(())
    }

    /// An invite from the server's operator, made as an operator makes one.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn invite(&mut self) -> Result<String, Failure> {
        let failed = |error: std::io::Error| Failure::demo("making an invite", error);
        let program = server_program().ok_or_else(Failure::no_server_program)?;
        let store = self.store();
        let arguments = ["invite", "create", "--json", "--store", &store].map(OsStr::new);
        let log = self.dir().join("invite.log");
        let invite = self.start("the invite", &program, arguments, &log).map_err(failed)?;
        invite.finished().await.map_err(failed)?;
        let output = invite.log().map_err(failed)?;
        self.programs.pop();
        let code = |line: &str| {
            let answer: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(answer.get("code")?.as_str()?.to_owned())
        };
        output.lines().find_map(code).ok_or_else(|| Failure::demo("making an invite", output))
    }

    /// Starts a program and remembers it at once.
    fn start<'a>(
        &mut self,
        name: &'static str,
        program: &Path,
        arguments: impl IntoIterator<Item = &'a OsStr>,
        log: &Path,
    ) -> std::io::Result<&mut Program> {
        let program = Program::start(name, program, arguments, log)?;
        self.programs.push(program);
        self.programs.last_mut().ok_or_else(|| std::io::Error::other("it was not remembered"))
    }

    /// The server's store, as its command line names it.
    fn store(&self) -> String {
        format!("sled:{}", self.server_dir().join("store").display())
    }

    /// Starts a daemon in a home of its own.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_device(&mut self, name: &'static str) -> Result<&Device, Failure> {
        let detailed = self.detailed;
        let starting = "starting a device";
        let home = self.dir().join(name);
        let places = Places::find(Some(&home)).map_err(Failure::home)?;
        let own = std::env::current_exe().map_err(|error| Failure::demo(starting, error))?;
        let level = OsStr::new(if detailed { "debug" } else { "info" });
        let arguments = [OsStr::new("daemon"), OsStr::new("--home"), home.as_os_str()];
        let arguments = arguments.into_iter().chain([OsStr::new("--log"), level]);
        let log = self.dir().join(format!("{name}.log"));
        let program = self
            .start(name, &own, arguments, &log)
            .map_err(|error| Failure::demo(starting, error))?;
        let local = answering(program, &places).await?;
        self.devices.push(Device { local, places, name });
        self.device(self.devices.len() - 1)
    }

    /// Writes what each daemon says of itself beside its log, for whoever looks for a fault.
    pub async fn write_statuses(&self) {
        for device in &self.devices {
            let asked = tokio::time::timeout(Duration::from_secs(5), device.local.client.status());
            if let Ok(Ok(status)) = asked.await
                && let Ok(text) = serde_json::to_string_pretty(&status)
            {
                let path = self.dir().join(format!("{}.status.json", device.name));
                // The fault itself is told all the same.
                let _ = std::fs::write(path, text);
            }
        }
    }

    /// Ends every process in order, then removes the directory; with `keep` it stays.
    ///
    /// # Errors
    /// The directory cannot be removed.
    pub async fn close(self, keep: bool) -> Result<(), Failure> {
        let Self { dir, detailed: _, programs, relay, devices: _ } = self;
        for program in programs.into_iter().rev() {
            program.stop().await;
        }
        drop(relay);
        if keep {
            let _ = dir.keep();
            return Ok(());
        }
        dir.close().map_err(|error| Failure::io("Removing the demo's directory", &error))
    }
}

/// The server's program: beside this one, else in PATH.
fn server_program() -> Option<PathBuf> {
    let name = format!("{SERVER}{}", std::env::consts::EXE_SUFFIX);
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|dir| dir.join(&name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|dir| dir.join(&name));
    beside.into_iter().chain(in_path).find(|program| program.is_file())
}

/// Waits until the server says where it listens.
async fn listening(server: &mut Program) -> Result<SocketAddr, Failure> {
    until(server, |server| {
        let log = server.log().unwrap_or_default();
        let address = |line: &str| -> Option<SocketAddr> {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            let url = event.get("url")?.as_str()?;
            url.trim_start_matches("https://").trim_end_matches('/').parse().ok()
        };
        std::future::ready(log.lines().find_map(address))
    })
    .await
}

/// Waits until a daemon answers, and gives the client of its owner.
async fn answering(program: &mut Program, places: &Places) -> Result<Local, Failure> {
    until(program, |_| async {
        let local = Local::at(places, Some(&places.data)).ok()?;
        local.client.ping().await.ok()?;
        local.client.status().await.ok()?;
        Some(local)
    })
    .await
}

/// Asks again until there is an answer; a program that ends or takes too long is a failure with
/// its last words.
async fn until<T, F>(
    program: &mut Program,
    mut ask: impl FnMut(&Program) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Option<T>>,
{
    let started = Instant::now();
    loop {
        if let Some(answer) = ask(program).await {
            return Ok(answer);
        }
        let ended = program.ended().ok().flatten();
        let fault = match ended {
            Some(status) => format!("it ended with {status}"),
            None if started.elapsed() > START => format!("it took more than {} s", START.as_secs()),
            None => {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let doing = format!("starting {}", program.name());
        return Err(Failure::demo(&doing, format!("{fault}: {}", program.last_words())));
    }
}
