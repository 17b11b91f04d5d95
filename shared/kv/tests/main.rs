//! The suite that every engine passes.

mod conformance;
mod support;
