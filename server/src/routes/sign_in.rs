//! Signing in: a challenge that the server signs, the device's answer, a token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use tidings_proof::Signature;
use tidings_proof::signin::{Challenge, verify_answer};
use tidings_wire::auth::{
    Action, ChallengeRequest, ChallengeResponse, TokenRequest, TokenResponse,
};
use tidings_wire::{AccountId, Code, DeviceId};
use tokio::time::Instant;

use super::{Call, json};
use crate::clock::Millis;
use crate::failure::{Answer, Failure};
use crate::rates;
use crate::state::Shared;
use crate::{random, text};

/// `POST /api/auth/challenge`. It is answered for accounts and devices that do not exist, too:
/// nothing can be learned by asking.
pub(super) async fn challenge(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Answer<Response> {
    let call = Call::new(&shared, request);
    shared.rates.call(rates::Call::SignIn, call.client)?;
    let asked: ChallengeRequest = call.json(&shared).await?;
    let nonce = random::bytes()?;
    let (account, device) = (asked.account_id, asked.device_id);
    shared.challenges.open(account, device, nonce, Instant::now());
    let server = shared.identity.server();
    let signed = Challenge { server, account, device, nonce }.signed_bytes();
    json(&ChallengeResponse {
        server_id: server,
        token_key: shared.identity.public_text(),
        nonce: text::encode(nonce),
        signature: text::encode(shared.identity.sign(&signed)),
        now_ms: Millis::now().0,
    })
}

/// `POST /api/auth/token`.
pub(super) async fn token(State(shared): State<Arc<Shared>>, request: Request) -> Answer<Response> {
    let call = Call::new(&shared, request);
    shared.rates.call(rates::Call::SignIn, call.client)?;
    let asked: TokenRequest = call.json(&shared).await?;
    let (account, device) = (asked.account_id, asked.device_id);
    check_answer(&shared, account, device, Action::SignIn, &asked.nonce, &asked.signature).await?;
    let now = Millis::now();
    let life = shared.config.auth.token_life;
    let issued = shared.tokens.issue(account, device, now, life).map_err(Failure::internal)?;
    json(&TokenResponse { token: issued.0, expires_ms: issued.1.0, now_ms: now.0 })
}

/// Uses a challenge up and checks the device's signature for an action. A refusal for a challenge
/// that is not open comes before the signature is looked at.
pub(super) async fn check_answer(
    shared: &Shared,
    account: AccountId,
    device: DeviceId,
    action: Action,
    nonce: &str,
    signature: &str,
) -> Answer<()> {
    let invalid = |message: &str| Failure::new(Code::TokenInvalid, message);
    let nonce = text::decode_array(nonce)
        .ok_or_else(|| Failure::invalid("nonce", "32 bytes as base64url without padding"))?;
    let signature = text::decode_array(signature)
        .map(Signature)
        .ok_or_else(|| Failure::invalid("signature", "64 bytes as base64url without padding"))?;
    if !shared.challenges.take(account, device, &nonce, Instant::now()) {
        return Err(invalid("the challenge is not open: it was used, or its time is over")
            .hint("ask for a new one"));
    }
    let chain = shared.active(account, device).await?;
    let known = chain.device(device).map_err(|_| invalid("the device is not in the chain"))?;
    verify_answer(&known.public.signing, shared.identity.server(), action, &nonce, &signature)
        .map_err(|_| invalid("the signature does not fit"))
}
