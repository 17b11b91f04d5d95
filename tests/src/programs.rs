//! Where the programs under test are: beside the test, where cargo puts both.

use std::path::{Path, PathBuf};

/// The daemon and command line.
///
/// # Panics
/// It was not built.
pub fn tidings() -> PathBuf {
    program("tidings")
}

/// The server.
///
/// # Panics
/// It was not built.
pub fn tidings_server() -> PathBuf {
    program("tidings-server")
}

fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    // target/PROFILE/deps/TEST
    let directory = test.parent().and_then(Path::parent).expect("a directory of builds");
    let path = directory.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.is_file(),
        "{} is not there: these tests run the real programs; build them first with \
         `cargo build --bins` (of the same profile as the tests)",
        path.display()
    );
    path
}
