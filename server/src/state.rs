//! What every handler shares, and how a request becomes a caller.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::json;
use tidings_proof::{Chain, DeviceKind};
use tidings_wire::{AccountId, Code, DeviceId};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::challenge::Challenges;
use crate::auth::identity::Identity;
use crate::auth::token::{TokenError, Tokens};
use crate::chains::Chains;
use crate::clock::Millis;
use crate::config::Config;
use crate::failure::{Answer, Failure};
use crate::hub::Hub;
use crate::leaving::Leaving;
use crate::mailbox::Mailboxes;
use crate::rates::Rates;
use crate::store::{PushLimits, SharedStore};
use crate::text;
use crate::turns::Turns;

/// The parts of a running server.
pub struct Shared {
    /// The configuration.
    pub config: Config,
    /// The address that is listened on.
    pub address: SocketAddr,
    /// The store.
    pub store: SharedStore,
    /// The server's keys.
    pub identity: Identity,
    /// Tokens.
    pub tokens: Tokens,
    /// Open challenges.
    pub challenges: Challenges,
    /// Open pairing mailboxes.
    pub mailboxes: Mailboxes,
    /// Open streams.
    pub hub: Arc<Hub>,
    /// Folded chains.
    pub chains: Chains,
    /// Rate limits.
    pub rates: Rates,
    /// Devices that somebody is about to unlink.
    pub leaving: Leaving,
    /// Room for request bodies, in KiB.
    pub room: Arc<Semaphore>,
    /// Work that outlives its request: writes that were begun are finished and announced.
    pub tasks: TaskTracker,
    /// Pulls that are being answered.
    pub pulls: Turns,
    /// Set when the server begins to stop.
    pub stopping: CancellationToken,
    /// How many requests came.
    requests: AtomicU64,
}

/// The address that a connection came from.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

impl Shared {
    /// Puts the parts together.
    pub fn new(
        config: Config,
        address: SocketAddr,
        store: SharedStore,
        hub: Arc<Hub>,
        stopping: CancellationToken,
    ) -> Arc<Self> {
        let identity = Identity::new(store.token_key());
        let kib = usize::try_from(config.limits.inflight_bytes >> 10).unwrap_or(usize::MAX);
        Arc::new(Self {
            tokens: Tokens::new(&identity),
            identity,
            challenges: Challenges::new(config.auth.challenge_life, config.auth.challenges),
            mailboxes: Mailboxes::new(config.pairing.life, config.pairing.mailboxes),
            hub,
            chains: Chains::new(store.clone()),
            rates: Rates::new(&config.rates),
            leaving: Leaving::default(),
            room: Arc::new(Semaphore::new(kib.min(Semaphore::MAX_PERMITS))),
            tasks: TaskTracker::new(),
            pulls: Turns::new(config.limits.pulls_per_account),
            stopping,
            requests: AtomicU64::new(0),
            store,
            address,
            config,
        })
    }

    /// An id for the next request: unlike any other since the server's store was started.
    pub fn next_request_id(&self) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let start = self.store.timeline().start();
        format!("{}-{number}", start.to_string().chars().take(8).collect::<String>())
    }

    /// What a push may not exceed.
    pub fn push_limits(&self) -> PushLimits {
        let (quota, limits) = (&self.config.quota, &self.config.limits);
        PushLimits {
            bytes: quota.bytes,
            blobs: quota.blobs,
            apps: limits.apps,
            lanes: limits.lanes,
            replicas: limits.replicas,
        }
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        self.config.url(self.address)
    }

    /// The address that counts for rates: the connection's, or what a trusted proxy says.
    pub fn client(&self, peer: Option<Peer>, headers: &HeaderMap) -> IpAddr {
        let trusted = |address: IpAddr| {
            self.config.trusted_proxies.iter().any(|network| network.contains(address))
        };
        let unknown = IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED);
        let mut address = peer.map_or(unknown, |Peer(address)| address);
        // Each proxy adds at the right whom it spoke to; the first from there that is not ours is
        // the client, and what stands left of it is only what the client says.
        let lines = headers.get_all("x-forwarded-for").into_iter().rev();
        let hops = lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.rsplit(',').map(str::trim));
        for hop in hops {
            if !trusted(address) {
                break;
            }
            match hop.parse() {
                Ok(hop) => address = hop,
                Err(_) => break,
            }
        }
        address
    }

    /// Who calls, by the bearer token.
    ///
    /// # Errors
    /// 401 without a valid token or from a revoked device, 403 from a suspended account, 429.
    pub async fn caller(&self, headers: &HeaderMap) -> Answer<Caller> {
        let caller = self.reader(headers).await?;
        let kind = caller.chain.device(caller.device).map(|device| device.public.kind);
        if kind == Ok(DeviceKind::Paper) {
            let message = "a paper key reads the key ring and nothing else";
            return Err(Failure::new(Code::TokenInvalid, message));
        }
        Ok(caller)
    }

    /// The same for what a paper key may do, too: reading the key ring, to recover the account.
    ///
    /// # Errors
    /// As [`Shared::caller`].
    pub async fn reader(&self, headers: &HeaderMap) -> Answer<Caller> {
        let token = bearer(headers)?;
        let bearer = self.tokens.verify(token, Millis::now()).map_err(|error| {
            let code = match error {
                TokenError::Expired => Code::TokenExpired,
                TokenError::Invalid => Code::TokenInvalid,
            };
            Failure::new(code, error.to_string()).hint("sign in again")
        })?;
        self.rates.account(bearer.account)?;
        let chain = self.active(bearer.account, bearer.device).await?;
        let (account, device, expires) = (bearer.account, bearer.device, bearer.expires);
        Ok(Caller { account, device, expires, chain })
    }

    /// The chain of an account in which a device is active.
    ///
    /// # Errors
    /// As [`Shared::caller`].
    pub async fn active(&self, account: AccountId, device: DeviceId) -> Answer<Arc<Chain>> {
        let (chain, row) = self.chains.current(account).await?;
        if row.suspended {
            return Err(Failure::new(
                Code::AccountSuspended,
                "the account is suspended by the server's operator; nothing was changed",
            ));
        }
        let Ok(known) = chain.device(device) else {
            let message = "the device is not in the account's chain";
            return Err(Failure::new(Code::TokenInvalid, message));
        };
        let Some(revoked) = &known.revoked else { return Ok(chain) };
        let entry = self.store.chain(account, revoked.index.0, 1).await?.entries;
        let entry: Vec<_> = entry.iter().map(text::encode).collect();
        Err(Failure::new(Code::DeviceRevoked, "this device was unlinked from the account")
            .hint("link it again from another device")
            .details(json!({ "index": revoked.index, "chain": entry })))
    }
}

/// An active device with a valid token.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Its account.
    pub account: AccountId,
    /// The device.
    pub device: DeviceId,
    /// The end of its token.
    pub expires: Millis,
    /// The account's chain.
    pub chain: Arc<Chain>,
}

impl Caller {
    /// Refuses a request that speaks for another device.
    ///
    /// # Errors
    /// 403 `auth.device_mismatch`.
    pub fn must_be(&self, device: DeviceId) -> Answer<()> {
        if device == self.device {
            Ok(())
        } else {
            let message = "the token is of another device than the request speaks for";
            Err(Failure::new(Code::DeviceMismatch, message))
        }
    }
}

fn bearer(headers: &HeaderMap) -> Answer<&str> {
    let mut values = headers.get_all(AUTHORIZATION).into_iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        let message = "this call needs one Authorization header with a bearer token";
        return Err(Failure::new(Code::AuthRequired, message).hint("sign in first"));
    };
    let text = value.to_str().ok();
    let token = text.and_then(|text| text.split_once(' ')).filter(|(scheme, _)| {
        // RFC 9110, 11.1: the scheme's case does not matter.
        scheme.eq_ignore_ascii_case("bearer")
    });
    token.map(|(_, token)| token.trim()).ok_or_else(|| {
        Failure::new(Code::TokenInvalid, "the Authorization header holds no bearer token")
    })
}
