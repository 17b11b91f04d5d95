//! Device chains and key rings. Appending needs no token: the entry's signature is the authority.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::json;
use tidings_proof::{Chain, ChainError, EntryBody, SealedEarlier, SignedEntry, Wrap, check_wraps};
use tidings_wire::account::{
    AppendChainRequest, AppendChainResponse, ChainQuery, ChainResponse, KeyringEpoch,
    KeyringResponse,
};
use tidings_wire::sync::{ACCOUNT_CHANNEL, ChainHead};
use tidings_wire::{Code, limits};

use super::accounts::{self, chain_invalid, decode_entry, decode_wraps, wraps_incomplete};
use super::{Call, json};
use crate::announce::Announcement;
use crate::body;
use crate::failure::{Answer, Failure};
use crate::hub::End;
use crate::rates;
use crate::state::Shared;
use crate::store::{ChainAppend, Refusal};
use crate::text;

/// `GET /api/chain`: entries from one on.
pub(super) async fn read(State(shared): State<Arc<Shared>>, request: Request) -> Answer<Response> {
    let call = Call::new(&shared, request);
    shared.rates.call(rates::Call::Chain, call.client)?;
    let asked: ChainQuery = body::query(&call.uri)?;
    let page = shared.store.chain(asked.account_id, asked.from, limits::CHAIN_PAGE).await?;
    let entries = page.entries.iter().map(text::encode).collect();
    json(&ChainResponse { entries, head: page.head })
}

/// `POST /api/chain`: verifies an entry against the chain that it names and appends it.
pub(super) async fn append(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<Response> {
    let call = Call::new(&shared, request);
    shared.rates.call(rates::Call::Chain, call.client)?;
    let asked: AppendChainRequest = call.json(&shared).await?;
    let entry = decode_entry(&asked.entry, "entry")?;
    let signed = SignedEntry::decode(&entry).map_err(chain_invalid)?;
    let (chain, row) = shared.chains.current(asked.account_id).await?;
    if row.suspended {
        return Err(Failure::new(Code::AccountSuspended, "the account is suspended"));
    }
    if signed.entry.hash() == chain.head().hash {
        // The answer to the first time was lost.
        return json(&AppendChainResponse { head: chain.head() });
    }
    let wraps = decode_wraps(&asked.wraps)?;
    let earlier = asked.earlier.as_deref().map(decode_earlier).transpose()?;
    let parsed: Vec<Wrap> = accounts::parsed(&wraps);
    let most_devices = shared.config.limits.devices;
    let (before, body) = (chain.clone(), signed.clone());
    let verifying = tokio::task::spawn_blocking(move || {
        verify(&before, &body, &parsed, earlier.as_ref().map(|(earlier, _)| earlier), most_devices)
            .map(|chain| (chain, earlier.map(|(_, bytes)| bytes)))
    });
    let (after, earlier) = verifying.await.map_err(Failure::internal)??;
    let (revoked, cuts) = match &signed.entry.body {
        EntryBody::RevokeDevices { devices, cuts, .. } => (devices.clone(), cuts.clone()),
        _ => (BTreeSet::new(), BTreeSet::new()),
    };
    let append = ChainAppend {
        account: asked.account_id,
        before: chain.head(),
        after: after.head(),
        entry,
        epoch: after.newest_epoch(),
        wraps: accounts::bytes(wraps),
        earlier,
        revoked: revoked.clone(),
        cuts,
        most: shared.config.limits.chain_entries,
        most_bytes: shared.config.limits.chain_bytes,
    };
    let head = after.head();
    // What is begun is finished and announced, whether or not the caller stays for the answer.
    let task = {
        let shared = shared.clone();
        async move {
            let account = append.account;
            if let Err(refusal) = shared.store.append_chain(append).await {
                if matches!(refusal, Refusal::CutMoved) {
                    // The signature is good: whoever is to be unlinked must not be able to put it
                    // off for ever by saying something new all the time.
                    shared.leaving.note(account, &revoked);
                }
                return Err(refusal);
            }
            shared.chains.remember(Arc::new(after));
            shared.hub.end_devices(account, |device| revoked.contains(&device), End::Revoked);
            let index = head.index;
            tracing::info!(%account, %index, revoked = revoked.len(), "chain entry appended");
            Ok::<_, Refusal>(Announcement::new(&shared, move |hub| {
                hub.publish(account, ACCOUNT_CHANNEL, None);
            }))
        }
    };
    let announcement = shared.tasks.spawn(task).await.map_err(Failure::internal)??;
    Ok(announcement.after(json(&AppendChainResponse { head })?))
}

/// The chain with the entry appended.
fn verify(
    chain: &Chain,
    signed: &SignedEntry,
    wraps: &[Wrap],
    earlier: Option<&SealedEarlier>,
    most_devices: usize,
) -> Answer<Chain> {
    let mut after = chain.clone();
    after.extend(signed).map_err(|error| match error {
        ChainError::DoesNotFollow { .. } => moved(chain.head()),
        error => chain_invalid(error),
    })?;
    let adds = matches!(signed.entry.body, EntryBody::AddDevice { .. });
    if adds && after.active().count() > most_devices {
        let message = format!("the account has {most_devices} devices, the most it may have");
        return Err(
            Failure::new(Code::QuotaExceeded, message).hint("unlink one that is not used any more")
        );
    }
    check_wraps(&after, &signed.entry.body, wraps, earlier).map_err(wraps_incomplete)?;
    Ok(after)
}

/// 409: the chain ends elsewhere.
pub(super) fn moved(head: ChainHead) -> Failure {
    Refusal::ChainMoved(head).into()
}

fn decode_earlier(earlier: &str) -> Answer<(SealedEarlier, Vec<u8>)> {
    let decode = || {
        let bytes = text::decode(earlier, SealedEarlier::LEN)?;
        Some((SealedEarlier::decode(&bytes).ok()?, bytes))
    };
    decode().ok_or_else(|| {
        Failure::invalid("earlier", "not a sealed secret as base64url without padding")
            .details(json!({ "field": "earlier" }))
    })
}

/// `GET /api/keyring`: every epoch, with the wrap to the caller.
pub(super) async fn keyring(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<Response> {
    let call = Call::new(&shared, request);
    let caller = shared.reader(&call.headers).await?;
    let epochs = shared.store.keyring(caller.account, caller.device).await?;
    let epochs = epochs
        .into_iter()
        .map(|row| KeyringEpoch {
            epoch: row.epoch,
            wrap: row.wrap.map(text::encode),
            earlier: row.earlier.map(text::encode),
        })
        .collect();
    json(&KeyringResponse { epochs })
}
