//! Rows and their merge, JSON values and order, filters, sort, windows. Pure: no IO, no clock, no
//! random source, so that a simulation can run whole networks of it.

pub mod body;
pub mod cbor;
pub mod cell;
pub mod clock;
mod codec;
pub mod filter;
pub mod json;
pub mod names;
pub mod number;
pub mod object;
pub mod ops;
pub mod order;
pub mod patch;
pub mod path;
pub mod query;
pub mod record;
pub mod row;
mod show;
pub mod sort;
mod split;
pub mod value;

#[cfg(test)]
mod laws;

pub use body::{Body, BodyError, EncodedBody, pack};
pub use cbor::DecodeError;
pub use clock::{Clock, ClockExhausted};
pub use filter::{Filter, FilterError};
pub use json::{JsonError, JsonProblem};
pub use names::{NameError, RowId, TableName};
pub use number::Number;
pub use object::Object;
pub use ops::{OpError, Written};
pub use patch::{Patch, PatchError};
pub use path::Path;
pub use query::{Page, Query, QueryError};
pub use record::{Input, InputError};
pub use row::{Delta, MergeOutcome, Row};
pub use sort::{Sort, SortError};
pub use value::Value;
