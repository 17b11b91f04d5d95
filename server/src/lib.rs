//! The Tidings sync server: an opaque log with cursors, and a nudge.
