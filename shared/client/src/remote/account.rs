//! Calls about accounts, signing in, the device chain, the key ring and pairing.

use std::time::Duration;

use reqwest::Method;
use tidings_wire::{
    Nameplate,
    account::{
        AppendChainRequest, AppendChainResponse, ChainQuery, ChainResponse, CreateAccountRequest,
        CreateAccountResponse, DeleteAccountRequest, KeyringResponse,
    },
    auth::{ChallengeRequest, ChallengeResponse, TokenRequest, TokenResponse},
    limits,
    pairing::{
        OpenMailboxResponse, PutMailboxRequest, ReadMailboxQuery, ReadMailboxResponse, Side,
    },
};

use super::{ClientError, SyncClient};

/// Largest answer of the calls that answer a few short fields, in bytes.
const SMALL_ANSWER: usize = 64 << 10;

impl SyncClient {
    /// Whether the server is up.
    ///
    /// # Errors
    /// [`ClientError`] when it is not, or is not a Tidings server.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.open_call(Method::GET, "/healthz", &[]).answer_nothing().await
    }

    /// Creates an account from its genesis entry.
    ///
    /// # Errors
    /// [`ClientError`]; the codes begin with `account.` and `chain.`.
    pub async fn create_account(
        &self,
        request: &CreateAccountRequest,
    ) -> Result<CreateAccountResponse, ClientError> {
        self.open_call(Method::POST, "/api/accounts", &[])
            .json(request)?
            .answer_json(SMALL_ANSWER)
            .await
    }

    /// Deletes the signed-in device's account with all its bytes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn delete_account(&self, request: &DeleteAccountRequest) -> Result<(), ClientError> {
        self.call(Method::DELETE, "/api/accounts/self", &[])?.json(request)?.answer_nothing().await
    }

    /// Asks for a challenge to sign.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn challenge(
        &self,
        request: &ChallengeRequest,
    ) -> Result<ChallengeResponse, ClientError> {
        self.open_call(Method::POST, "/api/auth/challenge", &[])
            .json(request)?
            .answer_json(SMALL_ANSWER)
            .await
    }

    /// Trades a signed challenge for a token.
    ///
    /// # Errors
    /// [`ClientError`]; `auth.device_revoked` carries the chain entries that say so.
    pub async fn token(&self, request: &TokenRequest) -> Result<TokenResponse, ClientError> {
        self.open_call(Method::POST, "/api/auth/token", &[])
            .json(request)?
            .answer_json(SMALL_ANSWER)
            .await
    }

    /// Reads a device chain from one of its entries on.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn chain(&self, query: &ChainQuery) -> Result<ChainResponse, ClientError> {
        let (account, from) = (query.account_id.to_string(), query.from.to_string());
        let query = [("account_id", account.as_str()), ("from", from.as_str())];
        self.open_call(Method::GET, "/api/chain", &query).answer_json(limits::JSON_RESPONSE).await
    }

    /// Appends an entry to a device chain; its signature is the authority.
    ///
    /// # Errors
    /// [`ClientError`]; `chain_moved` when another entry came first.
    pub async fn append_chain(
        &self,
        request: &AppendChainRequest,
    ) -> Result<AppendChainResponse, ClientError> {
        self.open_call(Method::POST, "/api/chain", &[])
            .json(request)?
            .answer_json(SMALL_ANSWER)
            .await
    }

    /// Reads the wraps and sealed earlier secrets for the signed-in device.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn keyring(&self) -> Result<KeyringResponse, ClientError> {
        self.call(Method::GET, "/api/keyring", &[])?.answer_json(limits::JSON_RESPONSE).await
    }

    /// Opens a pairing mailbox.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn open_mailbox(&self) -> Result<OpenMailboxResponse, ClientError> {
        self.open_call(Method::POST, "/api/pair", &[]).answer_json(SMALL_ANSWER).await
    }

    /// Writes a side's next message into a mailbox.
    ///
    /// # Errors
    /// [`ClientError`]; `pair.not_found` when the mailbox is gone.
    pub async fn put_mailbox(
        &self,
        nameplate: Nameplate,
        side: Side,
        request: &PutMailboxRequest,
    ) -> Result<(), ClientError> {
        let path = format!("/api/pair/{nameplate}/{side}");
        self.open_call(Method::PUT, &path, &[]).json(request)?.answer_nothing().await
    }

    /// Reads a side's messages, waiting for the next one as long as the query says.
    ///
    /// # Errors
    /// [`ClientError`]; `pair.not_found` when the mailbox is gone.
    pub async fn read_mailbox(
        &self,
        nameplate: Nameplate,
        side: Side,
        query: &ReadMailboxQuery,
    ) -> Result<ReadMailboxResponse, ClientError> {
        let path = format!("/api/pair/{nameplate}/{side}");
        let (from, wait) = (query.from.to_string(), query.wait.to_string());
        let wait_time = Duration::from_secs(u64::from(query.wait));
        self.open_call(Method::GET, &path, &[("from", &from), ("wait", &wait)])
            .within(self.timeouts.answer + wait_time)
            .answer_json(limits::JSON_RESPONSE)
            .await
    }
}
