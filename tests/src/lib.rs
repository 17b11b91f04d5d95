//! End to end, crash, vectors and benches.
