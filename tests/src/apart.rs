//! Programs apart from the rest of the machine: on a small disk or a network of their own, with a
//! clock of their own. All of it goes with the program.
//!
//! Needs root and a few programs of the system; `tests/run` installs them. Where something is
//! missing, a test fails with the name of it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::Process;
use crate::wait::DEADLINE;

/// Fails unless the tests run as root, which alone may mount, cut networks and so on.
///
/// # Panics
/// They do not.
pub fn need_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test mounts disks and cuts networks: run it as root, as CI does"
    );
}

/// Fails unless a program is installed.
///
/// # Panics
/// It is not.
pub fn need(program: &str, package: &str) {
    let found = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(found.is_ok(), "this test needs {program}: tests/run installs it ({package})");
}

/// Puts a program in front of a command, which it is given as its last arguments.
pub fn behind<S: AsRef<OsStr>>(command: &mut Command, front: impl IntoIterator<Item = S>) {
    let mut front = front.into_iter();
    let program = front.next().map(|program| program.as_ref().to_owned()).unwrap_or_default();
    let mut new = Command::new(program);
    new.args(front.map(|argument| argument.as_ref().to_owned()).collect::<Vec<OsString>>());
    new.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => new.env(name, value),
            None => new.env_remove(name),
        };
    }
    *command = new;
}

/// Lets a command see a fresh file system in memory at a directory, with options of mount(8) such
/// as `size=64m`. Nobody else sees it but through [`inside`].
///
/// # Panics
/// This is not root, or the directory cannot be made.
pub fn on_disk(command: &mut Command, dir: &Path, options: &str) {
    need_root();
    std::fs::create_dir_all(dir).expect("a directory to mount on");
    const SCRIPT: &str = "mount -t tmpfs -o \"$1\" tidings-test \"$2\" && shift 2 && exec \"$@\"";
    let front = ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", options].map(OsString::from);
    behind(command, front.into_iter().chain([dir.as_os_str().to_owned()]));
}

/// The same with ext4 on a loop device, of so many MiB; the image lies beside the directory.
///
/// # Panics
/// This is not root, or the image cannot be made.
pub fn on_image(command: &mut Command, dir: &Path, mebibytes: u64) {
    need_root();
    need("mkfs.ext4", "e2fsprogs");
    std::fs::create_dir_all(dir).expect("a directory to mount on");
    let image = dir.with_extension("img");
    let file = std::fs::File::create(&image).expect("an image");
    file.set_len(mebibytes << 20).expect("the size of the image");
    let mut make = Command::new("mkfs.ext4");
    let (status, said) =
        Process::start("mkfs.ext4", make.args(["-q", "-F"]).arg(&image)).finished(DEADLINE);
    assert!(status.success(), "mkfs.ext4: {said}");
    const SCRIPT: &str = "mount -o loop \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    let front = ["unshare", "--mount", "sh", "-c", SCRIPT, "sh"].map(OsString::from);
    let front = front.into_iter().chain([image.into_os_string(), dir.as_os_str().to_owned()]);
    behind(command, front);
}

/// A path as a program sees it.
pub fn inside(process: u32, path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{process}/root"));
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts what a program sees at a directory anew, with options such as `remount,ro`.
///
/// # Panics
/// The system refuses.
pub fn remount(process: u32, dir: &Path, options: &str) {
    let target = format!("--target={process}");
    let mut command = Command::new("nsenter");
    command.args([&target, "--mount", "mount", "-o", options]).arg(dir);
    let (status, said) = Process::start("mount", &mut command).finished(DEADLINE);
    assert!(status.success(), "mount -o {options} {}: {said}", dir.display());
}

/// A network of its own: nothing but a loopback that may be cut.
#[derive(Debug)]
pub struct Network {
    /// Keeps it for as long as it lives.
    holder: Process,
}

impl Network {
    /// Makes one.
    ///
    /// # Panics
    /// This is not root, or a program is missing.
    pub fn new() -> Self {
        need_root();
        need("iptables", "iptables");
        need("ip", "iproute2");
        const SCRIPT: &str = "ip link set lo up && echo ready && exec sleep infinity";
        let mut command = Command::new("unshare");
        let holder = Process::start("a network", command.args(["--net", "sh", "-c", SCRIPT]));
        holder.line("ready", DEADLINE, |line| (line == "ready").then_some(()));
        Self { holder }
    }

    /// Lets a command run in it.
    pub fn enter(&self, command: &mut Command) {
        let net = format!("--net=/proc/{}/ns/net", self.holder.id());
        behind(command, ["nsenter", &net, "--"]);
    }

    /// Adds or deletes rules of iptables(8).
    ///
    /// # Panics
    /// It refuses.
    pub fn iptables(&self, rule: &[&str]) {
        let mut command = Command::new("iptables");
        self.enter(command.args(["--wait"]).args(rule));
        let (status, said) = Process::start("iptables", &mut command).finished(DEADLINE);
        assert!(status.success(), "iptables {}: {said}", rule.join(" "));
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

/// A wall clock that a test sets while programs run; their other clocks go on.
#[derive(Debug)]
pub struct WallClock {
    dir: tempfile::TempDir,
    library: PathBuf,
}

impl WallClock {
    /// One that is right.
    ///
    /// # Panics
    /// libfaketime is missing.
    pub fn new() -> Self {
        need("faketime", "faketime");
        let places = std::fs::read_dir("/usr/lib").expect("/usr/lib").flatten();
        let places = places.map(|place| place.path().join("faketime"));
        let library = std::iter::once(PathBuf::from("/usr/lib/faketime"))
            .chain(places)
            .map(|place| place.join("libfaketimeMT.so.1"))
            .find(|library| library.exists())
            .expect("libfaketimeMT.so.1 below /usr/lib: tests/run installs it (faketime)");
        let clock = Self { dir: tempfile::tempdir().expect("a directory"), library };
        clock.set("+0");
        clock
    }

    /// Moves it against the machine's, such as `+365d` or `-1y`; programs see it at once.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn set(&self, offset: &str) {
        let new = self.dir.path().join("new");
        std::fs::write(&new, format!("{offset}\n")).expect("the time");
        std::fs::rename(new, self.file()).expect("the time");
    }

    /// Lets a command go by it.
    pub fn rule(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("time")
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new()
    }
}
