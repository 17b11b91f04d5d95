//! `GET /api/sync/pull`: a page of the log after the caller's cursor, and all newest manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use tidings_proof::{Reader, Replica, Writer};
use tidings_wire::sync::{ACCOUNT_CHANNEL, DevicePull, PullQuery, PullResponse, Reset};
use tidings_wire::{Code, Position, TableTag, limits};

use super::{Call, cbor};
use crate::announce::hold;
use crate::body;
use crate::clock::Millis;
use crate::cursor::{Binding, Cursor, Follow};
use crate::failure::{Answer, Failure};
use crate::since;
use crate::state::Shared;
use crate::store::Pull;
use crate::text;

/// Pulls.
pub(super) async fn pull(State(shared): State<Arc<Shared>>, request: Request) -> Answer<Response> {
    let call = Call::new(&shared, request);
    let caller = shared.caller(&call.headers).await?;
    no_account_channel(&call.uri)?;
    let query: PullQuery = body::query(&call.uri)?;
    caller.must_be(query.device_id)?;
    let own = Replica { device: query.device_id, incarnation: query.incarnation };
    let tags = query.tables.as_deref().map(parse_tags).transpose()?;
    let since = query.since.as_deref().map(since::parse).transpose()?;
    let known = query.manifests.as_deref().map_or_else(|| Ok(BTreeMap::new()), parse_known)?;
    let page_blobs = shared.config.limits.page_blobs;
    let limit = match query.limit {
        None => page_blobs,
        Some(0) => return Err(Failure::invalid("limit", "at least 1")),
        Some(limit) if limit as usize > limits::PAGE_BLOBS => {
            return Err(Failure::invalid("limit", format!("at most {}", limits::PAGE_BLOBS)));
        }
        Some(limit) => (limit as usize).min(page_blobs),
    };
    let timeline = shared.store.timeline();
    let context = context(&caller, &query, own, tags.as_ref(), since);
    let binding = Binding { key: shared.identity.cursor_key(), context: &context };
    let follow = match query.cursor.as_deref() {
        None => Follow::On(Position(0)),
        Some(cursor) => {
            let cursor = text::decode(cursor, limits::CURSOR)
                .and_then(|bytes| Cursor::open(&bytes, binding));
            let cursor = cursor.ok_or_else(|| {
                Failure::invalid("cursor", "it was not given for this device, app and filter")
                    .hint("start without a cursor")
            })?;
            timeline.follow(&cursor)
        }
    };
    let (after, reset) = match follow {
        Follow::On(position) => (position, None),
        Follow::Reset(common) => (common, Some(Reset { common })),
    };
    let pull = Pull {
        account: caller.account,
        app: query.app_id.clone(),
        own,
        after,
        tags,
        since,
        limit,
        bytes: shared.config.limits.page_bytes,
        known,
    };
    let turn = shared.pulls.wait(caller.account).await?;
    let page = shared.store.pull(pull).await?;
    let now = Millis::now();
    // After a reset the caller goes on from what is common, in its own time; nothing but the
    // manifests is worth sending with the news.
    let (entries, position, has_more) = match reset {
        None => (page.entries, page.position, page.has_more),
        Some(_) => (Vec::new(), after, page.head > after),
    };
    let row = page.account.ok_or_else(|| Failure::internal("a page without its account"))?;
    if reset.is_none() {
        let noted = DevicePull {
            app_id: query.app_id,
            device_id: own.device,
            incarnation: own.incarnation,
            position,
            at_ms: now.0,
        };
        shared.store.note_pull(caller.account, noted);
    }
    let response = cbor(&PullResponse {
        generation: timeline.generation,
        start: timeline.start(),
        reset,
        entries,
        cursor: timeline.cursor(position).seal(binding).into(),
        position,
        part: 0,
        has_more,
        head: page.head,
        manifest_heads: page.manifest_heads,
        manifests: page.manifests.into_iter().map(Into::into).collect(),
        anchors: if reset.is_none() { page.anchors } else { Vec::new() },
        chain: row.head,
        epoch: row.epoch,
        now_ms: now.0,
    })?;
    Ok(hold(response, turn))
}

/// The account's own channel has nothing to pull.
fn no_account_channel(uri: &http::Uri) -> Answer<()> {
    let query = uri.query().unwrap_or_default();
    let names_it =
        query.split('&').any(|pair| pair.strip_prefix("app_id=") == Some(ACCOUNT_CHANNEL));
    if names_it {
        let message = "_account is a channel of changed, not an app; there is nothing to pull";
        return Err(Failure::new(Code::AppNotFound, message));
    }
    Ok(())
}

/// What a cursor is bound to: account, app, caller and filter.
fn context(
    caller: &crate::state::Caller,
    query: &PullQuery,
    own: Replica,
    tags: Option<&BTreeSet<TableTag>>,
    since: Option<Millis>,
) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.raw(&caller.account.0).app(&query.app_id);
    own.write(&mut writer);
    match tags {
        None => writer.u8(0),
        Some(tags) => {
            writer.u8(1).count(tags.len());
            tags.iter().fold(&mut writer, |writer, tag| writer.raw(&tag.0))
        }
    };
    match since {
        None => writer.u8(0),
        Some(since) => writer.u8(1).u64(since.0),
    };
    writer.finish()
}

fn parse_tags(text: &str) -> Answer<BTreeSet<TableTag>> {
    let tags: Result<BTreeSet<_>, _> = text.split(',').map(str::parse).collect();
    let tags = tags.map_err(|error| Failure::invalid("tables", error))?;
    if tags.len() > limits::PULL_TAGS {
        return Err(Failure::invalid("tables", format!("at most {}", limits::PULL_TAGS)));
    }
    Ok(tags)
}

/// The manifests that the caller holds: 32 bytes each, device, incarnation, number.
fn parse_known(known: &str) -> Answer<BTreeMap<Replica, u64>> {
    const LEN: usize = Replica::LEN + 8;
    let invalid = || {
        let most = limits::PULL_KNOWN_MANIFESTS;
        Failure::invalid("manifests", format!("at most {most} records of 32 bytes, as base64url"))
    };
    let bytes = text::decode(known, limits::PULL_KNOWN_MANIFESTS * LEN).ok_or_else(invalid)?;
    let mut reader = Reader::new(&bytes);
    let mut map = BTreeMap::new();
    while reader.remaining() > 0 {
        let record = Replica::read(&mut reader)
            .and_then(|replica| Ok((replica, reader.u64("a manifest number")?)));
        let (replica, n) = record.map_err(|_| invalid())?;
        map.insert(replica, n);
    }
    Ok(map)
}
