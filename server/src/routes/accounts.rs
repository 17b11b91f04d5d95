//! Creating and deleting accounts.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::json;
use tidings_proof::{Chain, SignedEntry, Wrap, check_wraps};
use tidings_wire::account::{CreateAccountRequest, CreateAccountResponse, DeleteAccountRequest};
use tidings_wire::auth::Action;
use tidings_wire::{Code, DeviceId, limits};

use super::{Call, json, sign_in};
use crate::clock::Millis;
use crate::config::Registration;
use crate::failure::{Answer, Failure};
use crate::hub::End;
use crate::invite;
use crate::rates;
use crate::state::Shared;
use crate::store::{NewAccount, Refusal};
use crate::text;

/// `POST /api/accounts`: verifies the genesis and its wraps and creates the account.
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<Response> {
    let call = Call::new(&shared, request);
    shared.rates.call(rates::Call::CreateAccount, call.client)?;
    let asked: CreateAccountRequest = call.json(&shared).await?;
    let genesis = decode_entry(&asked.genesis, "genesis")?;
    let signed = SignedEntry::decode(&genesis).map_err(chain_invalid)?;
    let chain = Chain::begin(&signed).map_err(chain_invalid)?;
    let wraps = decode_wraps(&asked.wraps)?;
    check_wraps(&chain, &signed.entry.body, &parsed(&wraps), None).map_err(wraps_incomplete)?;
    let account = chain.account();
    let new = NewAccount {
        account,
        genesis,
        head: chain.head(),
        wraps: bytes(wraps),
        invite: asked.invite.as_deref().map(invite::hash),
        invite_needed: shared.config.registration == Registration::Invite,
        now: Millis::now(),
    };
    shared.store.create_account(new).await?;
    tracing::info!(%account, "account created");
    json(&CreateAccountResponse { account_id: account, server_id: shared.identity.server() })
}

/// `DELETE /api/accounts/self`: a token and a fresh signature for just this.
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<Response> {
    let call = Call::new(&shared, request);
    shared.rates.call(rates::Call::SignIn, call.client)?;
    let caller = shared.caller(&call.headers).await?;
    let asked: DeleteAccountRequest = call.json(&shared).await?;
    let (account, device) = (caller.account, caller.device);
    let action = Action::DeleteAccount;
    sign_in::check_answer(&shared, account, device, action, &asked.nonce, &asked.signature).await?;
    // Begun is finished, whether or not the caller stays for the answer.
    let task = {
        let shared = shared.clone();
        async move {
            shared.store.delete_account(account).await?;
            shared.chains.forget(account);
            shared.hub.end_devices(account, |_| true, End::AccountGone);
            tracing::info!(%account, "account deleted");
            Ok::<_, Refusal>(())
        }
    };
    shared.tasks.spawn(task).await.map_err(Failure::internal)??;
    json(&json!({}))
}

/// Reads a chain entry from its text.
pub(super) fn decode_entry(entry: &str, field: &str) -> Answer<Vec<u8>> {
    text::decode(entry, limits::CHAIN_ENTRY).ok_or_else(|| {
        Failure::invalid(field, "a chain entry of at most 64 KiB, as base64url without padding")
    })
}

/// Reads wraps from their texts, with the bytes as sent.
pub(super) fn decode_wraps(wraps: &[String]) -> Answer<Vec<(Wrap, Vec<u8>)>> {
    if wraps.len() > limits::DEVICES {
        return Err(Failure::invalid("wraps", format!("at most {}", limits::DEVICES)));
    }
    let decode = |wrap: &String| {
        let bytes = text::decode(wrap, Wrap::LEN)?;
        Some((Wrap::decode(&bytes).ok()?, bytes))
    };
    let invalid = || Failure::invalid("wraps", "not wraps as base64url without padding");
    wraps.iter().map(|wrap| decode(wrap).ok_or_else(invalid)).collect()
}

/// The wraps without their bytes.
pub(super) fn parsed(wraps: &[(Wrap, Vec<u8>)]) -> Vec<Wrap> {
    wraps.iter().map(|(wrap, _)| wrap.clone()).collect()
}

/// The wraps' bytes by device.
pub(super) fn bytes(wraps: Vec<(Wrap, Vec<u8>)>) -> Vec<(DeviceId, Vec<u8>)> {
    let by_device: BTreeMap<_, _> =
        wraps.into_iter().map(|(wrap, bytes)| (wrap.device, bytes)).collect();
    by_device.into_iter().collect()
}

/// An entry that does not verify.
pub(super) fn chain_invalid(error: impl std::fmt::Display) -> Failure {
    Failure::new(Code::ChainInvalid, format!("the entry does not verify: {error}"))
}

/// Wraps that are not those that the entry needs.
pub(super) fn wraps_incomplete(error: impl std::fmt::Display) -> Failure {
    Failure::new(Code::WrapsIncomplete, format!("{error}; nothing was changed"))
}
