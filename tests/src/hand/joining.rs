//! Joining the account of a real daemon by a pairing code, as the new computer.

use std::sync::Arc;

use http::Method;
use tidings_client::local::Request;
use tidings_client::remote::SyncClient;
use tidings_crypto::pairing::{Joiner, JoinerEvent, PairingCode};
use tidings_crypto::{DeviceKeys, Keyring, random};
use tidings_proof::{Chain, SignedEntry, Wrap};
use tidings_wire::AccountId;
use tidings_wire::account::ChainQuery;
use tidings_wire::linking::AddDevice;
use tidings_wire::pairing::{PutMailboxRequest, ReadMailboxQuery, Side};

use super::{Hand, decode, encode, sign_in};
use crate::device::Device;
use crate::server::client;

impl Hand {
    /// Joins the account of a device, which is told the code.
    ///
    /// # Panics
    /// Somebody refuses.
    pub async fn join(device: &Device, url: &str) -> Self {
        let client = client(url);
        let opened = client.open_mailbox().await.expect("a mailbox");
        let code = PairingCode::generate(opened.nameplate, &mut random::system());
        let add = AddDevice { code: code.to_string() };
        let add = Request::new(Method::POST, "/v1/devices/add").json(&add).expect("JSON");
        let keys = Arc::new(DeviceKeys::generate(&mut random::system()));
        let joining = async {
            let rng = &mut random::system();
            let (mut joiner, first) = Joiner::start(&code, opened.server_id, rng);
            let mut sent = 0;
            let mut send = async |message: &[u8]| {
                let request = PutMailboxRequest { index: sent, message: encode(message) };
                sent += 1;
                let put = client.put_mailbox(opened.nameplate, Side::New, &request).await;
                put.expect("a message of ours");
            };
            send(&first).await;
            let mut from = 0;
            let mut account = None;
            loop {
                let query = ReadMailboxQuery { from, wait: 20 };
                let read = client.read_mailbox(opened.nameplate, Side::Old, &query).await;
                for message in read.expect("messages of the other side").messages {
                    from += 1;
                    match joiner.receive(&decode(&message)).expect("a message that fits") {
                        JoinerEvent::Confirmed(message) => send(&message).await,
                        JoinerEvent::Offer(offer) => {
                            account = Some(offer.account);
                            let answer = joiner.answer(&keys, "by hand", rng);
                            send(&answer.expect("an answer")).await;
                        }
                        JoinerEvent::Waiting => {}
                        JoinerEvent::Linked(_) => return account.expect("an offer came before"),
                        JoinerEvent::Stopped(reason) => panic!("it stopped: {reason:?}"),
                    }
                }
            }
        };
        let adding = async {
            device.client().request(add).await.expect("the daemon links us");
        };
        let ((), account) = tokio::join!(adding, joining);
        let chain = read_chain(&client, account).await;
        let token = sign_in(&client, &keys, &chain).await;
        let ring = read_ring(&client.with_token(&token), &chain, &keys).await;
        Self::signed_in(client, keys, chain, ring).await
    }

    /// Reads the chain again, after others were linked.
    ///
    /// # Panics
    /// The server refuses.
    pub async fn refresh_chain(&mut self) {
        self.chain = read_chain(&self.client, self.chain.account()).await;
    }
}

async fn read_chain(client: &SyncClient, account: AccountId) -> Chain {
    let answer = client.chain(&ChainQuery { account_id: account, from: 0 }).await;
    let entries = answer.expect("the chain").entries;
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| SignedEntry::decode(&decode(entry)).expect("an entry"))
        .collect();
    Chain::fold(account, &entries).expect("a chain")
}

async fn read_ring(client: &SyncClient, chain: &Chain, keys: &DeviceKeys) -> Keyring {
    let mut ring = Keyring::new(chain.account());
    for epoch in client.keyring().await.expect("the key ring").epochs {
        if let Some(wrap) = epoch.wrap {
            let wrap = Wrap::decode(&decode(&wrap)).expect("a wrap");
            ring.accept_wrap(chain, keys, &wrap).expect("our wrap");
        }
    }
    ring
}
