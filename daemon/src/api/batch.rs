//! `POST /v1/apps/A/batch`: several operations in one transaction.

use std::str::FromStr as _;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use tidings_tables::{Patch, TableName, Value};
use tidings_wire::limits;
use tidings_wire::local::{BatchAnswer, BatchResult};

use super::Api;
use super::body::{self, Fields, missing};
use super::error::{ApiError, Code};
use super::gate::{Access, Caller, Need};
use super::names::{self, AppName};
use super::params::Params;
use super::rows;
use crate::replica::{Operation, Verb};

/// Handles a batch. With `atomic` (the default) the first operation that is refused is the answer
/// to all; without, each has a result of its own and what is fine is stored together.
pub async fn batch(
    State(api): State<Api>,
    caller: Caller,
    AppName(app): AppName,
    params: Params,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    params.finish()?;
    let mut fields =
        Fields::new(body::json(&headers, body, api.config().body_idle).await?, "a batch")?;
    let ops = fields.array("ops")?.ok_or_else(|| missing("ops"))?;
    let atomic = fields.bool("atomic")?.unwrap_or(true);
    let mutation_id = fields.text("mutation_id")?.map(rows::check_mutation_id).transpose()?;
    fields.finish()?;
    if ops.len() > limits::BATCH_OPS {
        let message = format!("a batch may have {} operations", limits::BATCH_OPS);
        return Err(
            ApiError::new(Code::TooLarge, message).details(json!({ "limit": limits::BATCH_OPS }))
        );
    }

    let (mut tables, mut parsed) = (Vec::new(), Vec::new());
    for value in ops {
        let op = OpFields::new(value);
        tables.extend(op.as_ref().ok().map(|op| op.table.clone()));
        parsed.push(op);
    }
    let names: Vec<&TableName> = tables.iter().collect();
    let access = api.gate().access(&caller, &app, &names, Need::Write)?;

    // What cannot even be read has its place among the results too.
    let mut slots = Vec::with_capacity(parsed.len());
    let mut operations = Vec::new();
    for (index, op) in parsed.into_iter().enumerate() {
        match op.and_then(|op| op.operation(&access)) {
            Ok(operation) => {
                operations.push(operation);
                slots.push(None);
            }
            Err(error) if atomic => return Err(error.details(json!({ "op": index }))),
            Err(error) => slots.push(Some(error)),
        }
    }
    let written = access.write(operations, atomic, mutation_id).await?;
    let mut stored = written.results.into_iter();
    let results = slots
        .into_iter()
        .map(|slot| match slot {
            Some(error) => refused(error),
            None => match stored.next() {
                Some(Ok(done)) => BatchResult {
                    status: if done.created { 201 } else { 200 },
                    id: Some(done.id.as_str().to_owned()),
                    ver: done.version,
                    error: None,
                },
                Some(Err(refusal)) => refused(refusal.into()),
                None => refused(ApiError::new(Code::Internal, "the operation has no result")),
            },
        })
        .collect();
    let answer = BatchAnswer { position: written.position, results };
    Ok(rows::answer(StatusCode::OK, &answer, written.position, None))
}

fn refused(error: ApiError) -> BatchResult {
    let problem = error.into_problem();
    BatchResult { status: problem.code.status(), id: None, ver: None, error: Some(problem) }
}

/// An operation whose table is known, so that the gate can be asked before the rest is read.
struct OpFields {
    table: TableName,
    verb: String,
    id: Option<String>,
    row: Option<Value>,
    patch: Option<Value>,
    if_match: Option<String>,
}

impl OpFields {
    fn new(value: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::new(value, "an operation")?;
        let op = Self {
            verb: fields.text("op")?.ok_or_else(|| missing("op"))?,
            table: names::table(&fields.text("table")?.ok_or_else(|| missing("table"))?)?,
            id: fields.text("id")?,
            row: fields.take("row"),
            patch: fields.take("patch"),
            if_match: fields.text("ifMatch")?,
        };
        fields.finish()?;
        Ok(op)
    }

    fn operation(self, access: &Access) -> Result<Operation, ApiError> {
        let condition = self
            .if_match
            .as_deref()
            .map(|text| {
                rows::condition(text).ok_or_else(|| {
                    ApiError::invalid("ifMatch", "`ifMatch` must be `*` or a `_ver.position`")
                })
            })
            .transpose()?;
        let mut id = self.id.as_deref().map(names::row).transpose()?;
        let verb = match Kind::from_str(&self.verb)? {
            kind @ (Kind::Insert | Kind::Put) => {
                if self.patch.is_some() {
                    return Err(ApiError::invalid("patch", "`patch` belongs to `update`"));
                }
                let input = rows::input(self.row.ok_or_else(|| missing("row"))?)?;
                match (&id, input.id) {
                    (Some(named), Some(inside)) if *named != inside => {
                        return Err(ApiError::invalid("id", "`id` and `row.id` differ"));
                    }
                    (None, Some(inside)) => id = Some(inside),
                    _ => {}
                }
                if kind == Kind::Insert {
                    Verb::Insert(input.columns)
                } else {
                    Verb::Put(input.columns)
                }
            }
            Kind::Update => {
                if self.row.is_some() {
                    return Err(ApiError::invalid("row", "`update` takes `patch`, not `row`"));
                }
                let id = id.as_ref().ok_or_else(|| missing("id"))?;
                Verb::Update(Patch::operators(self.patch.ok_or_else(|| missing("patch"))?, id)?)
            }
            Kind::Delete => {
                if self.row.is_some() || self.patch.is_some() {
                    return Err(ApiError::invalid(
                        "op",
                        "`delete` takes neither `row` nor `patch`",
                    ));
                }
                Verb::Delete
            }
        };
        let id = match (id, &verb) {
            (Some(id), _) => id,
            (None, Verb::Insert(_) | Verb::Put(_)) => access.new_row_id()?,
            (None, _) => return Err(missing("id")),
        };
        Ok(Operation { table: self.table, id, verb, condition })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Insert,
    Put,
    Update,
    Delete,
}

impl std::str::FromStr for Kind {
    type Err = ApiError;

    fn from_str(text: &str) -> Result<Self, ApiError> {
        match text {
            "insert" => Ok(Self::Insert),
            "put" => Ok(Self::Put),
            "update" => Ok(Self::Update),
            "delete" => Ok(Self::Delete),
            _ => Err(ApiError::invalid("op", "`op` must be insert, put, update or delete")
                .details(json!({ "accepted": ["insert", "put", "update", "delete"] }))),
        }
    }
}
