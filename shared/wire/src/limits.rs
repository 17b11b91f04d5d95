//! Sizes and counts that both sides of a call hold to, so that a refusal is never a surprise.
//!
//! A sender checks before it sends, a receiver before it allocates. Operators may lower some of
//! them in the server's configuration; nobody may raise them.

/// Largest cleartext body of a blob before compression, in bytes; a part of a run too.
pub const BLOB_BODY: usize = 256 << 10;
/// Largest cleartext body of a blob that holds one delta alone, in bytes.
pub const BLOB_BODY_SINGLE: usize = 320 << 10;
/// Largest sealed blob on the wire, in bytes: header, nonce, padded body, tag, signature.
pub const BLOB: usize = 400 << 10;
/// Largest sum of deltas in one push before compression, in bytes.
pub const PUSH_BODY: usize = 8 << 20;
/// Largest push request, in bytes: blobs, their framing and the manifest.
pub const PUSH_REQUEST: usize = 12 << 20;
/// Most blobs in one push.
pub const PUSH_BLOBS: usize = 4_096;
/// Largest signed manifest, in bytes.
pub const MANIFEST: usize = 256 << 10;
/// Most lanes (tables) that one manifest may list, and so most tables of an app.
pub const MANIFEST_LANES: usize = 4_000;
/// Largest signed statement of a run, in bytes; its parts travel apart.
pub const RUN_STATEMENT: usize = 1 << 20;
/// Most apps of an account.
pub const APPS: usize = 4_096;
/// Most blobs in one page of a pull, unless a single push holds more.
pub const PAGE_BLOBS: usize = 1_000;
/// Target size of a page of a pull in bytes, unless a single push is larger.
pub const PAGE_BYTES: usize = 4 << 20;
/// Largest pull answer that a client reads, in bytes: one whole push, and manifests.
pub const PULL_RESPONSE: usize = 32 << 20;
/// Longest cursor, in bytes.
pub const CURSOR: usize = 128;
/// Most table tags in one pull filter.
pub const PULL_TAGS: usize = 256;
/// Most manifests that one pull names as known.
pub const PULL_KNOWN_MANIFESTS: usize = 200;
/// Largest chain entry, in bytes.
pub const CHAIN_ENTRY: usize = 64 << 10;
/// Most chain entries in one answer.
pub const CHAIN_PAGE: usize = 256;
/// Most active devices of an account, the paper key included.
pub const DEVICES: usize = 256;
/// Largest JSON request body of the server's calls, in bytes.
pub const JSON_REQUEST: usize = 1 << 20;
/// Largest JSON answer of the server that a client reads, in bytes.
pub const JSON_RESPONSE: usize = 32 << 20;
/// Largest message in a pairing mailbox, in bytes.
pub const MAILBOX_MESSAGE: usize = 64 << 10;
/// Largest request head, in bytes: line and headers.
pub const REQUEST_HEAD: usize = 32 << 10;
/// Most request headers.
pub const REQUEST_HEADERS: usize = 64;
/// Most statements and parts entries that one compact request may replace.
pub const COMPACT_ENTRIES: usize = 4_096;

/// Largest row as CBOR, in bytes.
pub const ROW: usize = 256 << 10;
/// Deepest nesting of a JSON value.
pub const JSON_DEPTH: usize = 64;
/// Longest row id, in bytes; the shortest is 1.
pub const ROW_ID: usize = 512;
/// Longest table name, in bytes; the shortest is 1.
pub const TABLE_NAME: usize = 255;
/// Largest request body on the daemon's socket, in bytes (imports stream and have no limit).
pub const LOCAL_REQUEST: usize = 1 << 20;
/// Most operations in one batch.
pub const BATCH_OPS: usize = 500;
/// Default and largest `limit` of a query.
pub const QUERY_LIMIT_DEFAULT: usize = 100;
/// Largest `limit` of a query.
pub const QUERY_LIMIT: usize = 1_000;
/// Largest `offset` of a query.
pub const QUERY_OFFSET: usize = 10_000;

/// Longest line that an SSE reader accepts, in bytes.
pub const SSE_LINE: usize = 1 << 20;
/// Largest event that an SSE reader accepts, in bytes.
pub const SSE_EVENT: usize = 8 << 20;
