//! Servers that lie about who belongs to an account, or about who they are.

use std::sync::{Arc, Mutex};

use http::Method;
use tidings_client::local::Request;
use tidings_crypto::pairing::{Joiner, PairingCode};
use tidings_crypto::{DeviceKeys, entries, random};
use tidings_daemon::vault::{Keystore, KeystoreKind};
use tidings_proof::{Chain, Entry, EntryBody, Signature, SignedEntry, Wrap};
use tidings_tests::evil::{Answer, Asked, Evil, Script, Turn};
use tidings_tests::hand::{Hand, decode, encode};
use tidings_tests::{DEADLINE, Server, eventually};
use tidings_wire::account::{AppendChainRequest, ChainQuery, ChainResponse, KeyringResponse};
use tidings_wire::linking::AddDevice;
use tidings_wire::local::SyncState;
use tidings_wire::pairing::{PutMailboxRequest, ReadMailboxResponse};
use tidings_wire::sync::{ChainHead, PullResponse};
use tidings_wire::{ChainIndex, DeviceId, Epoch, ServerId};

use super::scene::{Scene, device, row, table};

const CHAIN: &str = "/api/chain";
const KEYRING: &str = "/api/keyring";
const PULL: &str = "/api/sync/pull";

/// Changes every answer that gives entries of the chain.
fn chains(change: impl Fn(&Asked, &mut ChainResponse) + Send + Sync + 'static) -> Script {
    Script::new().after(move |asked, answer| {
        if asked.is(CHAIN) && asked.method == Method::GET && answer.status.is_success() {
            let mut chain: ChainResponse = answer.read_json();
            change(asked, &mut chain);
            answer.write_json(&chain);
        }
    })
}

/// Names another head of the chain in every page, so that devices read it.
fn with_head(
    script: Script,
    head: impl Fn() -> Option<ChainHead> + Send + Sync + 'static,
) -> Script {
    script.after(move |asked, answer| {
        if asked.is(PULL)
            && let Some(head) = head()
            && let Some(mut page) = answer.read_cbor::<PullResponse>()
        {
            page.chain = head;
            answer.write_cbor(&page);
        }
    })
}

/// Links a device whose server plays a script from its first request on. Whether it syncs is not
/// waited for.
async fn link_under(scene: &mut Scene, name: &str, script: Script) -> DeviceId {
    let evil = Evil::start(scene.server.address()).await;
    evil.play(script);
    let new = device(name, &[]).await;
    let account = scene.devices[0].link(&new, &evil.url()).await;
    scene.add(new, evil, account.device);
    account.device
}

/// The whole chain, as the real server has it.
async fn real_chain(scene: &Scene) -> Chain {
    let account = scene.devices[0].status().await.account.unwrap();
    let query = ChainQuery { account_id: account, from: 0 };
    let answer = scene.server.client().chain(&query).await.unwrap();
    let entries: Vec<_> =
        answer.entries.iter().map(|text| SignedEntry::decode(&decode(text)).unwrap()).collect();
    Chain::fold(account, &entries).unwrap()
}

fn head_of(entry: &SignedEntry) -> ChainHead {
    ChainHead { index: entry.entry.index, hash: entry.entry.hash() }
}

/// Signs anything with a device's key, as only somebody could who works against it.
fn sign(keys: &DeviceKeys, bytes: &[u8]) -> Signature {
    use ed25519_dalek::{Signer as _, SigningKey};
    // Format, kind, then the seed.
    let seed: [u8; 32] = keys.export()[2..34].try_into().unwrap();
    Signature(SigningKey::from_bytes(&seed).sign(bytes).to_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_01_and_02_wraps_injected_and_replaced() {
    let mut scene = Scene::new(&["author", "other"]).await;
    let table = table("t");
    scene.push(0, &table, "secret", &row(1)).await;
    // To a new computer: the wrap of another device under its name, one of another account that
    // really is for somebody, noise, and none.
    let others = scene.evils[0].asked().into_iter().find_map(|asked| {
        let appended = asked.is(CHAIN) && asked.method == Method::POST;
        appended.then(|| asked.json::<AppendChainRequest>().wraps.pop()).flatten()
    });
    let others = Wrap::decode(&decode(&others.expect("the wrap of the other one"))).unwrap();
    let turn = Mutex::new(0);
    let script = Script::new().after(move |asked, answer| {
        if !asked.is(KEYRING) || !answer.status.is_success() {
            return;
        }
        let mut ring: KeyringResponse = answer.read_json();
        let mut turn = turn.lock().unwrap();
        *turn += 1;
        for epoch in &mut ring.epochs {
            let mut wrap = Wrap::decode(&decode(epoch.wrap.as_ref().unwrap())).unwrap();
            match *turn % 4 {
                1 => (wrap.enc, wrap.ciphertext) = (others.enc.clone(), others.ciphertext),
                2 => wrap.ciphertext.iter_mut().for_each(|byte| *byte ^= 0x55),
                3 => wrap.epoch = Epoch(7),
                _ => {}
            }
            epoch.wrap = (*turn % 4 != 0).then(|| encode(&wrap.encode()));
            epoch.earlier = Some(encode(b"no sealed secret"));
        }
        if *turn % 4 != 3 {
            ring.epochs.iter_mut().for_each(|epoch| epoch.earlier = None);
        }
        answer.write_json(&ring);
    });
    link_under(&mut scene, "new", script).await;
    scene.raised(2, "bad_wrap").await;
    scene.never_saw(2, &table, "secret").await;
    scene.endures(2).await;
    // It kept none of them, and takes the right one.
    scene.turn_honest(2);
    scene.sees(2, &table, "secret").await;
    scene.holds().await;
    scene.quiet(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_03_public_key_substitution() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // A third computer is linked; to the victim, the server names another key for it.
    let ghost = DeviceKeys::generate(&mut random::system());
    let public = ghost.public().clone();
    let script = chains(move |_, chain| {
        for text in &mut chain.entries {
            let mut entry = SignedEntry::decode(&decode(text)).unwrap();
            if let EntryBody::AddDevice { device, .. } = &mut entry.entry.body {
                *device = public.clone();
                chain.head = head_of(&entry);
            }
            *text = encode(&entry.encode());
        }
    });
    let mark = scene.play(1, script);
    link_under(&mut scene, "third", Script::new()).await;
    scene.alarm(1, "chain_invalid", mark).await;
    scene.endures(1).await;
    let known = scene.devices[1].devices().await.devices;
    assert!(known.iter().all(|device| device.id != ghost.id()), "{known:?}");
    scene.holds().await;
    scene.quiet(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_04_ghost_device() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    let chain = real_chain(&scene).await;
    let ghost = DeviceKeys::generate(&mut random::system());
    let add = |signer: DeviceId, keys: &DeviceKeys| {
        let entry = Entry {
            account: chain.account(),
            index: chain.next_index(),
            prev: chain.head().hash,
            body: EntryBody::AddDevice {
                device: ghost.public().clone(),
                co_signature: ghost.co_sign(chain.account(), chain.next_index()),
            },
            signer,
        };
        let signature = sign(keys, &entry.signed_bytes());
        SignedEntry { entry, signature }
    };
    // Signed by itself; by itself in the name of a device.
    for forged in [add(ghost.id(), &ghost), add(scene.ids[0], &ghost)] {
        let (head, text) = (head_of(&forged), encode(&forged.encode()));
        let script = chains(move |asked, chain| {
            let from: u64 = asked.parameters().get("from").map_or(0, |from| from.parse().unwrap());
            if from == head.index.0 {
                *chain = ChainResponse { entries: vec![text.clone()], head };
            }
        });
        let mark = scene.play(1, with_head(script, move || Some(head)));
        scene.alarm(1, "chain_invalid", mark).await;
        scene.endures(1).await;
        let known = scene.devices[1].devices().await.devices;
        assert_eq!(known.len(), 2, "{known:?}");
        // The real server would not even take it.
        let append = AppendChainRequest {
            account_id: chain.account(),
            entry: encode(&forged.encode()),
            wraps: Vec::new(),
            earlier: None,
        };
        let refused = scene.server.client().append_chain(&append).await.unwrap_err();
        assert_eq!(refused.code(), Some(tidings_wire::Code::ChainInvalid));
        scene.turn_honest(1);
        scene.quiet(1).await;
    }
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_05_ghost_during_pairing() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let server: ServerId = server_id(&scene).await;
    // The server takes the place of the new computer: it knows the number, and guesses the words.
    let opened = scene.server.client().open_mailbox().await.unwrap();
    let code = PairingCode::generate(opened.nameplate, &mut random::system());
    let guess = PairingCode::generate(opened.nameplate, &mut random::system());
    let (joiner, first) = Joiner::start(&guess, server, &mut random::system());
    let ghost = Mutex::new((Some(joiner), vec![first], Vec::<Vec<u8>>::new()));
    let (server_key, nameplate) = (opened.token_key.clone(), opened.nameplate);
    let script = Script::new().before(move |asked| {
        let mut ghost = ghost.lock().unwrap();
        if asked.is(&format!("/api/pair/{nameplate}/old")) && asked.method == Method::PUT {
            let request: PutMailboxRequest = asked.json();
            let message = decode(&request.message);
            // Whatever it makes of the answer: it goes on with what looks like a confirmation.
            let reply = ghost.0.take().and_then(|mut joiner| joiner.receive(&message).ok());
            let reply = match reply {
                Some(tidings_crypto::pairing::JoinerEvent::Confirmed(message)) => message,
                _ => vec![1; 33],
            };
            ghost.1.push(reply);
            ghost.2.push(message);
            return Answer::new(http::StatusCode::NO_CONTENT, "application/json", "").into();
        }
        if asked.is(&format!("/api/pair/{nameplate}/new")) {
            let from: usize = asked.parameters()["from"].parse().unwrap();
            let messages = ghost.1.iter().skip(from).map(|message| encode(message)).collect();
            let token_key = server_key.clone();
            return Answer::json(&ReadMailboxResponse { messages, server_id: server, token_key })
                .into();
        }
        Turn::Pass
    });
    let mark = scene.play(0, script);
    let add = AddDevice { code: code.to_string() };
    let add = Request::new(Method::POST, "/v1/devices/add").json(&add).unwrap();
    let refused = scene.devices[0].client().request(add).await.unwrap_err();
    assert!(!refused.to_string().contains(&code.to_string()), "{refused}");
    // Nothing was wrapped for it, and nobody was added.
    let asked = scene.evils[0].asked_since(mark);
    assert!(!asked.iter().any(|asked| asked.is(CHAIN) && asked.method == Method::POST));
    assert_eq!(real_chain(&scene).await.devices().len(), 2);
    scene.endures(0).await;
    // One guess burns the code, not the computer: it can be linked by a new one.
    scene.turn_honest(0);
    link_under(&mut scene, "third", Script::new()).await;
    scene.holds().await;
}

async fn server_id(scene: &Scene) -> ServerId {
    scene.server.client().open_mailbox().await.unwrap().server_id
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_07_confused_names() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // Names of apps that are none, the account's channel, one name twice in other case.
    let names = ["Notes", "NOTES", "../notes", "", "_account", "n\u{f6}tes", "notes\0", "*"];
    for name in names {
        let script = Script::new().after(move |asked, answer| {
            if asked.is("/api/sync/apps") {
                let mut apps: serde_json::Value = answer.read_json();
                let list = apps["apps"].as_array_mut().unwrap();
                list.push(serde_json::json!({ "app_id": name, "head": 1 }));
                answer.write_json(&apps);
            }
        });
        let mark = scene.play(1, script);
        eventually("the list is read", DEADLINE, async || {
            let asked = scene.evils[1].asked_since(mark);
            asked.iter().find(|asked| asked.is("/api/sync/apps")).map(|_| ()).ok_or("not yet")
        })
        .await;
    }
    // What is known goes on.
    scene.push(0, &table, "meanwhile", &row(1)).await;
    scene.sees(1, &table, "meanwhile").await;
    scene.endures(1).await;
    let apps = scene.devices[1].status().await.apps;
    assert_eq!(apps.len(), 1, "{apps:?}");
    scene.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_08_chain_truncation() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // It shows the chain as it was before the victim's own name was added to it.
    let chain = real_chain(&scene).await;
    let index = ChainIndex(chain.head().index.0 - 1);
    let head = ChainHead { index, hash: chain.hash_at(index).unwrap() };
    let script = chains(move |_, chain| *chain = ChainResponse { entries: Vec::new(), head });
    let mark = scene.play(1, with_head(script, move || Some(head)));
    scene.alarm(1, "chain_rollback", mark).await;
    scene.endures(1).await;
    assert_eq!(scene.devices[1].devices().await.devices.len(), 2);
    scene.holds().await;
    scene.quiet(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_09_chain_fork() {
    let scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // A linked computer that works for the server signs two entries for one place: the victim is
    // shown the one, everybody else the other.
    let chain = real_chain(&scene).await;
    let keystore = Keystore::new(scene.devices[0].home().join("keys"), "");
    let secrets = keystore.load(KeystoreKind::File).await.unwrap().unwrap();
    let name = |name: &str| {
        let (keys, ring) = (&secrets.keys, &secrets.keyring);
        let rng = &mut random::system();
        entries::name_device(keys, &chain, ring, scene.ids[0], name, rng).unwrap().entry
    };
    let (here, there) = (name("here"), name("there"));
    let (head, text) = (head_of(&there), encode(&there.encode()));
    let script = chains(move |asked, chain| {
        let from: u64 = asked.parameters().get("from").map_or(0, |from| from.parse().unwrap());
        let entries = if from == head.index.0 { vec![text.clone()] } else { Vec::new() };
        *chain = ChainResponse { entries, head };
    });
    scene.play(1, with_head(script, move || Some(head)));
    let append = AppendChainRequest {
        account_id: chain.account(),
        entry: encode(&here.encode()),
        wraps: Vec::new(),
        earlier: None,
    };
    scene.server.client().append_chain(&append).await.unwrap();
    eventually("the victim took the entry that it was shown", DEADLINE, async || {
        let devices = scene.devices[1].devices().await.devices;
        let found = devices.iter().find(|device| device.id == scene.ids[0]).unwrap();
        if found.name.as_deref() == Some("there") { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    // The other one's manifest names its head of the chain, once it has read that.
    eventually("the author took the entry of everybody else", DEADLINE, async || {
        let devices = scene.devices[0].devices().await.devices;
        let found = devices.iter().find(|device| device.id == scene.ids[0]).unwrap();
        if found.name.as_deref() == Some("here") { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    scene.push(0, &table, "after", &row("after")).await;
    scene.raised(1, "chain_fork").await;
    scene.sees(1, &table, "before").await;
    // No honest server can heal this: the victim keeps what it has, and goes on writing.
    scene.endures(1).await;
    scene.turn_honest(1);
    scene.raised(1, "chain_fork").await;
    scene.sees(1, &super::scene::table("own"), "of-victim").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_38_algorithm_confusion_in_tokens() {
    let (server, other) = (Server::start(), Server::start());
    let hand = Hand::create(&server.url()).await;
    let stranger = Hand::create(&other.url()).await;
    let url = format!("{}/api/sync/apps", server.url());
    let ask = async |token: &str| {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(no_tls())
            .build()
            .expect("a client");
        let request = client.get(&url).bearer_auth(token);
        request.send().await.unwrap().status().as_u16()
    };
    let token = hand.token().to_owned();
    assert_eq!(ask(&token).await, 200);
    let parts: Vec<&str> = token.split('.').collect();
    let [head, claims, signature] = parts.as_slice() else { panic!("a token has three parts") };
    let header: serde_json::Value = serde_json::from_slice(&decode(head)).unwrap();
    let key = {
        let opened = server.client().open_mailbox().await.unwrap();
        decode(&opened.token_key)
    };
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut header = header.clone();
        change(&mut header);
        encode(header.to_string().as_bytes())
    };
    let none = with(&|header| header["alg"] = "none".into());
    let hs = with(&|header| header["alg"] = "HS256".into());
    let kid = with(&|header| header["kid"] = "another".into());
    let path = with(&|header| header["kid"] = "../../dev/null".into());
    let jwk = with(&|header| {
        header["jwk"] = serde_json::json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(&key) });
        header["alg"] = "EdDSA".into();
    });
    let mac = |head: &str| {
        use hmac::{Hmac, KeyInit as _, Mac as _};
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
        mac.update(format!("{head}.{claims}").as_bytes());
        encode(&mac.finalize().into_bytes())
    };
    let mut other_claims: serde_json::Value = serde_json::from_slice(&decode(claims)).unwrap();
    other_claims["exp"] = (u32::MAX).into();
    let other_claims = encode(other_claims.to_string().as_bytes());
    let forged = [
        format!("{none}.{claims}."),
        format!("{none}.{claims}.{signature}"),
        format!("{hs}.{claims}.{}", mac(&hs)),
        format!("{kid}.{claims}.{signature}"),
        format!("{path}.{claims}.{signature}"),
        format!("{jwk}.{claims}.{signature}"),
        format!("{head}.{other_claims}.{signature}"),
        format!("{head}.{claims}.{}", encode(&[0; 64])),
        format!("{head}.{claims}"),
        stranger.token().to_owned(),
    ];
    for token in forged {
        assert_eq!(ask(&token).await, 401, "{token}");
    }
    assert_eq!(ask(&token).await, 200, "the right one still counts");
}

fn no_tls() -> rustls::ClientConfig {
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_39_challenge_relay() {
    let mut scene = Scene::new(&["author", "victim"]).await;
    let table = table("t");
    scene.push(0, &table, "before", &row(0)).await;
    scene.sees(1, &table, "before").await;
    // The victim's server relays the challenge of another one, where it would like to sign in;
    // then the other one's under its own key; then its own with another nonce.
    let other = Server::start();
    let address = other.address();
    let relayed = Script::new().before(move |asked| match asked.is("/api/auth/challenge") {
        true => Turn::Ask(address),
        false => Turn::Pass,
    });
    let renonced = Script::new().after(|asked, answer| {
        if asked.is("/api/auth/challenge") && answer.status.is_success() {
            let mut challenge: serde_json::Value = answer.read_json();
            challenge["nonce"] = encode(&[7; 32]).into();
            answer.write_json(&challenge);
        }
    });
    let renamed = {
        let real = scene.server.client().open_mailbox().await.unwrap();
        Script::new()
            .before(move |asked| match asked.is("/api/auth/challenge") {
                true => Turn::Ask(address),
                false => Turn::Pass,
            })
            .after(move |asked, answer| {
                if asked.is("/api/auth/challenge") && answer.status.is_success() {
                    let mut challenge: serde_json::Value = answer.read_json();
                    challenge["server_id"] = serde_json::to_value(real.server_id).unwrap();
                    challenge["token_key"] = real.token_key.clone().into();
                    answer.write_json(&challenge);
                }
            })
    };
    for script in [relayed, renonced, renamed] {
        scene.devices[1].stop();
        let mark = scene.play(1, script);
        scene.devices[1].resume().await;
        eventually("it was challenged twice", DEADLINE, async || {
            let asked = scene.evils[1].asked_since(mark);
            let count = asked.iter().filter(|asked| asked.is("/api/auth/challenge")).count();
            if count >= 2 { Ok(()) } else { Err(count) }
        })
        .await;
        // Nothing was signed for anybody.
        let asked = scene.evils[1].asked_since(mark);
        assert!(!asked.iter().any(|asked| asked.is("/api/auth/token")), "it answered");
        assert!(!asked.iter().any(|asked| asked.headers.contains_key("authorization")));
        assert_ne!(scene.devices[1].status().await.state, SyncState::Synced);
        scene.endures(1).await;
    }
    scene.holds().await;
}
