//! Who calls: the server's own identity, challenges, and tokens.

pub mod challenge;
pub mod identity;
pub mod token;
