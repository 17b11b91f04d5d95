//! See [`tidings_tests::fuzz`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidings_tests::fuzz::check("sse", bytes));
