//! Rate limits per address and per account, on `governor`, which forget who has not called for a
//! while.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use tidings_wire::{AccountId, Code};

use crate::config;
use crate::failure::Failure;

/// One limit over many keys.
struct Limit<K: Hash + Eq + Clone> {
    limiter: Option<RateLimiter<K, DashMapStateStore<K>, DefaultClock>>,
    clock: DefaultClock,
}

impl<K: Hash + Eq + Clone> Limit<K> {
    fn new(rate: Option<config::Rate>) -> Self {
        let quota = rate.and_then(|rate| {
            let burst = std::num::NonZeroU32::new(rate.burst)?;
            Some(Quota::with_period(rate.period)?.allow_burst(burst))
        });
        Self { limiter: quota.map(RateLimiter::dashmap), clock: DefaultClock::default() }
    }

    fn check(&self, key: K, what: &str) -> Result<(), Failure> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        limiter.check_key(&key).map_err(|not_until| {
            let wait = not_until.wait_time_from(self.clock.now());
            let seconds = wait.as_secs().saturating_add(1);
            Failure::new(Code::RateLimited, format!("too many {what}; wait {seconds} s"))
                .retry_after(seconds)
        })
    }

    fn tidy(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
    }
}

/// Every limit of the server.
pub struct Rates {
    address: Limit<IpAddr>,
    account: Limit<AccountId>,
    sign_in: Limit<IpAddr>,
    create_account: Limit<IpAddr>,
    chain: Limit<IpAddr>,
    pairing: Limit<IpAddr>,
    open_mailbox: Limit<IpAddr>,
}

/// What kind of unauthenticated call is limited by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A challenge or a sign-in.
    SignIn,
    /// An attempt to create an account.
    CreateAccount,
    /// A read of a chain or an append to one.
    Chain,
    /// A read or write of a mailbox.
    Pairing,
    /// A new mailbox.
    OpenMailbox,
}

impl Rates {
    /// The limits of a configuration.
    pub fn new(rates: &config::Rates) -> Self {
        Self {
            address: Limit::new(rates.address),
            account: Limit::new(rates.account),
            sign_in: Limit::new(rates.sign_in),
            create_account: Limit::new(rates.create_account),
            chain: Limit::new(rates.chain),
            pairing: Limit::new(rates.pairing),
            open_mailbox: Limit::new(rates.open_mailbox),
        }
    }

    /// Counts a request of any kind.
    ///
    /// # Errors
    /// 429 `rate.limited` with the seconds to wait, as all of these.
    pub fn request(&self, from: IpAddr) -> Result<(), Failure> {
        self.address.check(network_of(from), "requests from this address")
    }

    /// Counts a request with a token.
    ///
    /// # Errors
    /// As [`Rates::request`].
    pub fn account(&self, account: AccountId) -> Result<(), Failure> {
        self.account.check(account, "requests of this account")
    }

    /// Counts a call that needs no token.
    ///
    /// # Errors
    /// As [`Rates::request`].
    pub fn call(&self, call: Call, from: IpAddr) -> Result<(), Failure> {
        let from = network_of(from);
        match call {
            Call::SignIn => self.sign_in.check(from, "sign-ins from this address"),
            Call::CreateAccount => {
                self.create_account.check(from, "new accounts from this address")
            }
            Call::Chain => self.chain.check(from, "device chain calls from this address"),
            Call::Pairing => self.pairing.check(from, "pairing calls from this address"),
            Call::OpenMailbox => self.open_mailbox.check(from, "pairing codes from this address"),
        }
    }

    /// Forgets who has not called for a while. To be called about every minute.
    pub fn tidy(&self) {
        let limits =
            [&self.address, &self.sign_in, &self.create_account, &self.chain, &self.pairing];
        limits.into_iter().for_each(Limit::tidy);
        self.open_mailbox.tidy();
        self.account.tidy();
    }
}

/// What counts as one address: IPv4 whole, IPv6 by its /64, which one customer has to himself.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn bursts_end_per_key_with_a_time_to_wait() {
        let rate = config::Rate { period: Duration::from_secs(60), burst: 2 };
        let limit = Limit::new(Some(rate));
        let a: IpAddr = "192.0.2.1".parse().unwrap();
        limit.check(a, "x").unwrap();
        limit.check(a, "x").unwrap();
        let failure = limit.check(a, "x").unwrap_err();
        assert_eq!(failure.code(), Code::RateLimited);
        limit.check("192.0.2.2".parse().unwrap(), "x").unwrap();
        assert!(Limit::<IpAddr>::new(None).check(a, "x").is_ok());
    }

    #[test]
    fn one_customer_is_one_address() {
        let a = network_of("2001:db8:1:2:3:4:5:6".parse().unwrap());
        let b = network_of("2001:db8:1:2:ffff::".parse().unwrap());
        let c = network_of("2001:db8:1:3::1".parse().unwrap());
        assert_eq!(a, b);
        assert_ne!(a, c);
        assert_eq!(network_of("::ffff:192.0.2.1".parse().unwrap()).to_string(), "192.0.2.1");
    }
}
