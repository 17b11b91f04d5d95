//! Signed headers of a lane, and manifests of devices: what proves and what heals.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use minicbor::Decoder;
use minicbor::decode::Error as CborError;
use tidings_proof::{Replica, SignedManifest};
use tidings_wire::sync::{HeadersQuery, HeadersResponse, Manifests, ManifestsQuery};
use tidings_wire::{Code, limits};

use super::{Call, cbor};
use crate::body;
use crate::failure::{Answer, Failure};
use crate::state::{Caller, Shared};
use crate::store::{HeadersRead, NewManifest};

/// Most manifests in one request.
const PUT_BACK: usize = 1_000;

/// `GET /api/sync/headers`: signed headers of one lane.
pub(super) async fn headers(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<Response> {
    let call = Call::new(&shared, request);
    let caller = shared.caller(&call.headers).await?;
    let query: HeadersQuery = body::query(&call.uri)?;
    let most = shared.config.limits.page_blobs;
    let limit = query.limit.map_or(most, |limit| (limit as usize).clamp(1, most));
    let read = HeadersRead {
        account: caller.account,
        app: query.app_id,
        replica: Replica { device: query.device_id, incarnation: query.incarnation },
        tag: query.tag,
        from: query.from,
        limit,
    };
    let page = shared.store.headers(read).await?;
    cbor(&HeadersResponse {
        generation: shared.store.timeline().generation,
        headers: page.headers.into_iter().map(Into::into).collect(),
        has_more: page.has_more,
    })
}

/// `GET /api/sync/manifests`: the newest manifests of a device in all apps.
pub(super) async fn list(State(shared): State<Arc<Shared>>, request: Request) -> Answer<Response> {
    let call = Call::new(&shared, request);
    let caller = shared.caller(&call.headers).await?;
    let query: ManifestsQuery = body::query(&call.uri)?;
    let manifests = shared.store.manifests(caller.account, query.device_id).await?;
    cbor(&Manifests { manifests: manifests.into_iter().map(Into::into).collect() })
}

/// `POST /api/sync/manifests`: puts back manifests that are newer than those held here, whoever
/// signed them; the answer lists none.
pub(super) async fn put_back(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<Response> {
    let call = Call::new(&shared, request);
    let caller = shared.caller(&call.headers).await?;
    let received = call.cbor(&shared, shared.config.limits.push_request).await?;
    let (bytes, verifier) = (received.bytes.clone(), caller.clone());
    let verifying = tokio::task::spawn_blocking(move || verify(&bytes, &verifier));
    let manifests = verifying.await.map_err(Failure::internal)??;
    for manifest in &manifests {
        shared.leaving.check(caller.account, manifest.replica.device)?;
    }
    let task = {
        let (shared, account, chain) = (shared.clone(), caller.account, caller.chain.head());
        let limits = shared.push_limits();
        async move { shared.store.put_manifests(account, chain, manifests, limits).await }
    };
    let taken = shared.tasks.spawn(task).await.map_err(Failure::internal)??;
    tracing::info!(account = %caller.account, taken, "manifests put back");
    cbor(&Manifests { manifests: Vec::new() })
}

fn verify(body: &[u8], caller: &Caller) -> Answer<Vec<NewManifest>> {
    let bad = |index: usize, error: &dyn std::fmt::Display| {
        Failure::new(Code::BadBlob, format!("manifest {index}: {error}; nothing was changed"))
    };
    let mut new = Vec::new();
    for (index, bytes) in decode(body)?.into_iter().enumerate() {
        let signed = SignedManifest::decode(bytes).map_err(|error| bad(index, &error))?;
        let verified = signed.verify(&caller.chain).map_err(|error| bad(index, &error))?;
        let manifest = verified.manifest();
        new.push(NewManifest {
            app: manifest.app.clone(),
            replica: manifest.replica,
            mark: verified.mark(),
            lanes: manifest.lanes.clone(),
            chain: manifest.chain,
            bytes: bytes.to_vec(),
        });
    }
    Ok(new)
}

/// Reads `[[manifest, …]]` without copying.
fn decode(body: &[u8]) -> Answer<Vec<&[u8]>> {
    let malformed = |error: CborError| {
        Failure::new(Code::BadBody, format!("the body is not a list of manifests: {error}"))
    };
    let mut decoder = Decoder::new(body);
    let counted = |count: Option<u64>| {
        count.ok_or_else(|| malformed(CborError::message("lists have their length before them")))
    };
    let fields = counted(decoder.array().map_err(malformed)?)?;
    let count = counted(decoder.array().map_err(malformed)?)?;
    if count > PUT_BACK as u64 {
        return Err(Failure::new(Code::TooLarge, format!("at most {PUT_BACK} manifests")));
    }
    let mut manifests = Vec::new();
    for _ in 0..count {
        let manifest = decoder.bytes().map_err(malformed)?;
        if manifest.len() > limits::MANIFEST {
            return Err(Failure::too_large(limits::MANIFEST));
        }
        manifests.push(manifest);
    }
    for _ in 1..fields {
        decoder.skip().map_err(malformed)?;
    }
    if decoder.position() == body.len() {
        Ok(manifests)
    } else {
        Err(malformed(CborError::message("bytes follow the end")))
    }
}
