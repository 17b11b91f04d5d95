//! The sync state machine. Pure: no tokio, no IO, no clock, no keys, no plaintext.
