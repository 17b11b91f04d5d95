//! Tests of the encodings and of everything that is verified, with keys of their own.

mod chain;
mod codec;
mod forgery;
mod support;
