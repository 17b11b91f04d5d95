//! `POST /api/sync/push`: blobs and the manifest that covers them, or a manifest alone.
//!
//! Signatures are checked here, beside the store; order is checked in the transaction. The order
//! of effects is: durable, acknowledged, announced.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use minicbor::Decoder;
use minicbor::decode::Error as CborError;
use serde::Deserialize;
use tidings_proof::{Blob, SignedManifest, Standing, VerifyError};
use tidings_wire::sync::{ACCOUNT_CHANNEL, PushResponse};
use tidings_wire::{AppId, Code, limits};

use super::chain::moved;
use super::{Call, cbor};
use crate::announce::Announcement;
use crate::body;
use crate::clock::Millis;
use crate::failure::{Answer, Failure};
use crate::state::{Caller, Shared};
use crate::store::{NewBlob, NewManifest, Push, Refusal};

/// Query of a push.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PushQuery {
    app_id: AppId,
}

/// Pushes.
pub(super) async fn push(State(shared): State<Arc<Shared>>, request: Request) -> Answer<Response> {
    let call = Call::new(&shared, request);
    let caller = shared.caller(&call.headers).await?;
    let query: PushQuery = body::query(&call.uri)?;
    let limits = &shared.config.limits;
    let received = call.cbor(&shared, limits.push_request).await?;
    let (bytes, most) = (received.bytes.clone(), limits.push_blobs);
    let (verifier, app) = (caller.clone(), query.app_id.clone());
    let verifying = tokio::task::spawn_blocking(move || verify(&bytes, most, &verifier, &app));
    let (blobs, manifest) = verifying.await.map_err(Failure::internal)??;
    let replica = manifest.replica;
    shared.leaving.check(caller.account, replica.device)?;
    let bare = blobs.is_empty();
    let push = Push {
        account: caller.account,
        chain: caller.chain.head(),
        blobs,
        manifest,
        now: Millis::now(),
        limits: shared.push_limits(),
    };
    // What is begun is finished and announced, whether or not the caller stays for the answer.
    let task = {
        let shared = shared.clone();
        let (account, app) = (caller.account, query.app_id);
        async move {
            let pushed = shared.store.push(push).await?;
            let (appended, first) = (!pushed.already && !bare, pushed.first_of_app);
            let announcement = Announcement::new(&shared, move |hub| {
                if appended {
                    hub.publish(account, app.as_str(), Some(replica));
                }
                if first {
                    hub.publish(account, ACCOUNT_CHANNEL, Some(replica));
                }
            });
            Ok::<_, Refusal>((pushed, announcement))
        }
    };
    let (pushed, announcement) = shared.tasks.spawn(task).await.map_err(Failure::internal)??;
    drop(received);
    let response = cbor(&PushResponse {
        generation: shared.store.timeline().generation,
        position: pushed.position,
        head: pushed.head,
        already: pushed.already,
        manifest: pushed.manifest,
        chain: pushed.chain,
    })?;
    Ok(announcement.after(response))
}

/// Takes the request apart and checks every signature in it.
fn verify(
    body: &Bytes,
    most: usize,
    caller: &Caller,
    app: &AppId,
) -> Answer<(Vec<NewBlob>, NewManifest)> {
    let (blobs, manifest) = decode(body, most)?;
    let chain = &*caller.chain;
    let signed = SignedManifest::decode(manifest).map_err(|error| bad("manifest", error))?;
    let named = signed.manifest.chain;
    let refuse = |what: &str, error: VerifyError| match error {
        // The sender knows entries that this server lacks, or the other way round.
        error if error.needs_chain() && named != chain.head() => moved(chain.head()),
        VerifyError::BelowFloor(format) => Failure::new(
            Code::BelowFloor,
            format!("{what}: format {format} is below the lowest that this account accepts"),
        )
        .hint("update Tidings on this device"),
        error => bad(what, error),
    };
    let manifest_app = signed.manifest.app.clone();
    let replica = signed.manifest.replica;
    if manifest_app != *app {
        return Err(bad("manifest", "it is of another app than the query names"));
    }
    caller.must_be(replica.device)?;
    let manifest_bytes = manifest.to_vec();
    let manifest = signed.verify(chain).map_err(|error| refuse("manifest", error))?;
    active(manifest.standing())?;
    let mut new = Vec::with_capacity(blobs.len());
    for (index, bytes) in blobs.into_iter().enumerate() {
        let what = format!("blob {index}");
        let blob = Blob::parse(bytes).map_err(|error| bad(&what, error))?;
        let lane = &blob.header().lane;
        caller.must_be(lane.replica.device)?;
        if lane.app != *app || lane.replica != replica {
            return Err(bad(&what, "it is of another app or replica than the manifest"));
        }
        let blob = blob.verify(chain).map_err(|error| refuse(&what, error))?;
        active(*blob.standing())?;
        let header = blob.header();
        new.push(NewBlob {
            tag: header.lane.tag,
            seq: header.seq,
            prev: header.prev,
            hash: blob.hash(),
            bytes: body.slice_ref(bytes),
        });
    }
    let signed = manifest.manifest();
    let manifest = NewManifest {
        app: signed.app.clone(),
        replica,
        mark: manifest.mark(),
        lanes: signed.lanes.clone(),
        chain: signed.chain,
        bytes: manifest_bytes,
    };
    Ok((new, manifest))
}

/// Nobody pushes for a revoked device; the token was refused already.
fn active(standing: Standing) -> Answer<()> {
    match standing {
        Standing::Active => Ok(()),
        Standing::Cut(_) => Err(bad("blob", "its author was unlinked")),
    }
}

fn bad(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(Code::BadBlob, format!("{what}: {error}; nothing was changed"))
}

/// Reads `[[blob, …], manifest]` without copying, refusing too many blobs before they are
/// gathered. Fields that a later version appends are passed over.
fn decode(body: &[u8], most: usize) -> Answer<(Vec<&[u8]>, &[u8])> {
    let malformed =
        |error: CborError| Failure::new(Code::BadBody, format!("the body is not a push: {error}"));
    let too_many = || {
        Failure::new(Code::TooLarge, format!("a push holds at most {most} blobs"))
            .details(serde_json::json!({ "limit": most }))
    };
    let mut decoder = Decoder::new(body);
    let fields = decoder.array().map_err(malformed)?;
    let announced = decoder.array().map_err(malformed)?;
    if announced.is_some_and(|count| count > most as u64) {
        return Err(too_many());
    }
    let mut blobs = Vec::new();
    let mut left = announced;
    loop {
        match left.as_mut() {
            Some(0) => break,
            Some(left) => *left -= 1,
            None if decoder.datatype().map_err(malformed)? == minicbor::data::Type::Break => {
                decoder.skip().map_err(malformed)?;
                break;
            }
            None => {}
        }
        if blobs.len() >= most {
            return Err(too_many());
        }
        let blob = decoder.bytes().map_err(malformed)?;
        if blob.len() > limits::BLOB {
            return Err(Failure::too_large(limits::BLOB));
        }
        blobs.push(blob);
    }
    let manifest = decoder.bytes().map_err(malformed)?;
    match fields {
        Some(fields) => {
            for _ in 2..fields {
                decoder.skip().map_err(malformed)?;
            }
        }
        None => {
            while decoder.datatype().map_err(malformed)? != minicbor::data::Type::Break {
                decoder.skip().map_err(malformed)?;
            }
            decoder.skip().map_err(malformed)?;
        }
    }
    if decoder.position() == body.len() {
        Ok((blobs, manifest))
    } else {
        Err(malformed(CborError::message("bytes follow the end")))
    }
}
