//! End to end, with the programs that people run: one test binary, one module per subject.

mod direction;
mod house;
