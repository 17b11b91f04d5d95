//! What fuzzing began with and what it found, replayed: `tests/fuzz/run` looks for more.

use std::fs;
use std::path::{Path, PathBuf};

use tidings_tests::fuzz::{TARGETS, check};

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

/// Replays the corpus of a target: every file, and each one cut and with a byte changed, for what
/// a fuzzer would try first.
fn replay(name: &str) {
    let mut files: Vec<_> =
        fs::read_dir(corpora().join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{name} has no seeds");
    for file in files {
        let seed = fs::read(&file).unwrap();
        check(name, &seed);
        // The socket takes its time over what it has to wait for.
        let steps = if name == "socket" { 3 } else { 64 };
        for step in 1..steps {
            let at = seed.len() * step / steps;
            check(name, &seed[..at]);
            let mut changed = seed.clone();
            if let Some(byte) = changed.get_mut(at) {
                *byte ^= 1 << (step % 8);
                check(name, &changed);
            }
        }
    }
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let fuzz = corpora().parent().unwrap().to_owned();
    for (name, _) in TARGETS {
        assert!(fuzz.join(format!("targets/{name}.rs")).is_file(), "{name} has no program");
        assert!(corpora().join(name).is_dir(), "{name} has no corpus");
    }
    let programs = fs::read_dir(fuzz.join("targets")).unwrap().count();
    assert_eq!(programs, TARGETS.len(), "a program of no target");
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed() {
            let replayed = [$(stringify!($name)),*];
            assert!(TARGETS.iter().map(|(name, _)| *name).eq(replayed));
        }
    };
}

replays! { sse proof chain cbor body row config socket }
