//! Where the programs under test are: where cargo puts them, beside this program or one above the
//! tests.

use std::path::PathBuf;

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
    let own = std::env::current_exe().expect("the path of this program");
    // target/PROFILE/PROGRAM or target/PROFILE/deps/TEST
    let directory = own.ancestors().skip(1).find(|path| !path.ends_with("deps"));
    let directory = directory.expect("a directory of builds");
    let path = directory.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.is_file(),
        "{} is not there: these tests run the real programs; build them first with \
         `cargo build --bins` (of the same profile as the tests)",
        path.display()
    );
    path
}
