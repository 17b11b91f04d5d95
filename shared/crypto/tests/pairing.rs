//! Two ends and what may come between them.

use tidings_crypto::pairing::*;
use tidings_crypto::*;
use tidings_proof::manifest::AppManifestHead;
use tidings_proof::*;
use tidings_wire::*;

use crate::support::*;

fn code() -> PairingCode {
    "4821-amused-violin-tunnel".parse().unwrap()
}

fn head(number: u32) -> AppManifestHead {
    AppManifestHead {
        app: format!("app{number}").parse().unwrap(),
        replica: Replica { device: DeviceId([1; 16]), incarnation: Incarnation([2; 8]) },
        n: ManifestNumber(7),
        hash: Hash([3; 32]),
    }
}

/// Both ends after the code was confirmed.
fn confirmed(rng: &mut SeedRng) -> (Joiner, Inviter) {
    let (mut joiner, first) = Joiner::start(&code(), server(), rng);
    let (mut inviter, reply) = Inviter::start(&code(), server(), &first, rng).unwrap();
    let JoinerEvent::Confirmed(confirm) = joiner.receive(&reply).unwrap() else { panic!() };
    assert_eq!(inviter.receive(&confirm).unwrap(), InviterEvent::Confirmed);
    (joiner, inviter)
}

fn offered(joiner: &mut Joiner, messages: &[Vec<u8>]) -> Offer {
    let (last, before) = messages.split_last().unwrap();
    for message in before {
        assert_eq!(joiner.receive(message).unwrap(), JoinerEvent::Waiting);
    }
    let JoinerEvent::Offer(offer) = joiner.receive(last).unwrap() else { panic!() };
    offer
}

fn answered(inviter: &mut Inviter, message: &[u8]) -> Answer {
    let InviterEvent::Answer(answer) = inviter.receive(message).unwrap() else { panic!() };
    *answer
}

#[test]
fn a_computer_joins_also_when_the_chain_moved_meanwhile() {
    let rng = &mut SeedRng::new("joins");
    let mut account = Account::new(rng);
    let id = account.chain.account();
    let fresh = DeviceKeys::generate(rng);
    let (mut joiner, mut inviter) = confirmed(rng);
    let heads = [head(1), head(2)];
    let messages = inviter.offer(id, account.chain.head(), &heads, rng).unwrap();
    let offer = offered(&mut joiner, &messages);
    assert_eq!((offer.round, offer.account, offer.chain), (0, id, account.chain.head()));
    assert_eq!((offer.server, offer.heads.as_slice()), (server(), heads.as_slice()));
    let answer = answered(&mut inviter, &joiner.answer(&fresh, "New one", rng).unwrap());
    assert_eq!((&answer.device, answer.name.as_str()), (fresh.public(), "New one"));

    // Another device is linked first: 409, once more over the same channel.
    account.link(&DeviceKeys::generate(rng), rng);
    let stale = entries::add_device(
        &account.keys,
        &account.chain,
        &account.ring,
        &answer.device,
        answer.co_signature,
        rng,
    );
    assert_eq!(stale.unwrap_err(), BuildError::Chain(ChainError::BadCoSignature));
    let messages = inviter.offer(id, account.chain.head(), &heads, rng).unwrap();
    let offer = offered(&mut joiner, &messages);
    assert_eq!((offer.round, offer.heads.as_slice()), (1, heads.as_slice()));
    let answer = answered(&mut inviter, &joiner.answer(&fresh, "New one", rng).unwrap());
    let added = entries::add_device(
        &account.keys,
        &account.chain,
        &account.ring,
        &answer.device,
        answer.co_signature,
        rng,
    )
    .unwrap();
    let message = inviter.linked(added.chain.head(), rng).unwrap();
    let linked = JoinerEvent::Linked(Linked { chain: added.chain.head() });
    assert_eq!(joiner.receive(&message).unwrap(), linked);
    assert_eq!(joiner.receive(&message), Err(PairingError::Over));
    assert_eq!(inviter.receive(&message), Err(PairingError::Over));
}

#[test]
fn many_heads_travel_in_several_messages() {
    let rng = &mut SeedRng::new("many heads");
    let account = Account::new(rng);
    let (mut joiner, mut inviter) = confirmed(rng);
    let heads: Vec<_> = (0..2_000).map(head).collect();
    let messages =
        inviter.offer(account.chain.account(), account.chain.head(), &heads, rng).unwrap();
    assert!(messages.len() > 1);
    assert!(messages.iter().all(|message| message.len() <= limits::MAILBOX_MESSAGE));
    assert_eq!(offered(&mut joiner, &messages).heads, heads);
}

#[test]
fn another_code_server_or_mailbox_confirms_nothing() {
    let rng = &mut SeedRng::new("wrong code");
    let elsewhere = server_id(&[1; 32]);
    for (typed, typed_server) in [
        ("4821-amused-violin-tuna", server()),
        ("4822-amused-violin-tunnel", server()),
        ("4821-amused-violin-tunnel", elsewhere),
    ] {
        let typed: PairingCode = typed.parse().unwrap();
        let (mut joiner, first) = Joiner::start(&code(), server(), rng);
        let (mut inviter, reply) = Inviter::start(&typed, typed_server, &first, rng).unwrap();
        assert_eq!(joiner.receive(&reply), Err(PairingError::WrongCode));
        // One guess: neither end goes on, whatever comes.
        assert_eq!(joiner.receive(&reply), Err(PairingError::Over));
        assert_eq!(inviter.receive(&refusal()), Err(PairingError::WrongCode));
        assert_eq!(inviter.receive(&refusal()), Err(PairingError::Over));
    }
}

#[test]
fn a_server_in_the_middle_gets_nowhere() {
    // It mirrors each side's messages back, or plays the other end with a guess of its own.
    let rng = &mut SeedRng::new("middle");
    let (mut joiner, first) = Joiner::start(&code(), server(), rng);
    assert_eq!(joiner.receive(&first), Err(PairingError::OutOfTurn));

    let guess: PairingCode = "4821-amused-amused-amused".parse().unwrap();
    let (mut evil_joiner, evil_first) = Joiner::start(&guess, server(), rng);
    let (mut inviter, reply) = Inviter::start(&code(), server(), &evil_first, rng).unwrap();
    assert_eq!(evil_joiner.receive(&reply), Err(PairingError::WrongCode));
    let mut guessed = reply.clone();
    guessed[1] = 3;
    assert!(inviter.receive(&guessed).is_err());
}

#[test]
fn any_changed_byte_ends_it() {
    let mut at = 0;
    loop {
        let rng = &mut SeedRng::new("changed");
        let account = Account::new(rng);
        let (mut joiner, mut inviter) = confirmed(rng);
        let offer = inviter
            .offer(account.chain.account(), account.chain.head(), &[head(1)], rng)
            .unwrap()
            .remove(0);
        if at >= offer.len() {
            break;
        }
        let mut changed = offer.clone();
        changed[at] ^= 4;
        assert!(joiner.receive(&changed).is_err(), "byte {at}");
        assert_eq!(joiner.receive(&offer), Err(PairingError::Over));
        at += 7;
    }
}

#[test]
fn key_exchange_messages_of_any_length_are_survived() {
    let rng = &mut SeedRng::new("lengths");
    for len in [0, 1, 2, 32, 33, 34, 1_000] {
        for first in [b'A', b'B', b'S', 0] {
            let mut exchange = vec![0xff; len];
            if let Some(byte) = exchange.first_mut() {
                *byte = first;
            }
            let message = [&[1, 1], &(len as u32).to_be_bytes()[..], &exchange].concat();
            // Any point of the curve starts an exchange; it only never ends in the same key.
            let started = Inviter::start(&code(), server(), &message, rng).is_ok();
            assert!(!started || (len == 33 && first == b'A'), "{len}, {first}");
            let message = [&[1, 2], &message[2..], &[7; 32]].concat();
            let (mut joiner, _) = Joiner::start(&code(), server(), rng);
            assert!(joiner.receive(&message).is_err(), "{len}, {first}");
        }
    }
}

#[test]
fn messages_count_once_and_in_order() {
    let rng = &mut SeedRng::new("order");
    let account = Account::new(rng);
    let fresh = DeviceKeys::generate(rng);
    let (mut joiner, mut inviter) = confirmed(rng);
    assert_eq!(joiner.answer(&fresh, "x", rng), Err(PairingError::OutOfTurn));
    assert!(inviter.linked(account.chain.head(), rng).is_err());
    let (id, chain) = (account.chain.account(), account.chain.head());
    let offer = inviter.offer(id, chain, &[], rng).unwrap().remove(0);
    assert!(inviter.offer(id, chain, &[], rng).is_err(), "one offer at a time");
    joiner.receive(&offer).unwrap();
    let long = "x".repeat(entries::NAME + 1);
    assert_eq!(joiner.answer(&fresh, &long, rng), Err(PairingError::NameTooLong));
    let answer = joiner.answer(&fresh, "x", rng).unwrap();
    // The other direction's key is another one: a message played back does not open.
    assert_eq!(joiner.receive(&answer), Err(PairingError::Tampered));
    answered(&mut inviter, &answer);
    assert_eq!(inviter.receive(&answer), Err(PairingError::Tampered));
}

#[test]
fn either_side_may_give_up() {
    let rng = &mut SeedRng::new("give up");
    let (mut joiner, mut inviter) = confirmed(rng);
    let message = inviter.stop(StopReason::TooManyDevices, rng).unwrap();
    let stopped = JoinerEvent::Stopped(StopReason::TooManyDevices);
    assert_eq!(joiner.receive(&message).unwrap(), stopped);
    let (mut joiner, mut inviter) = confirmed(rng);
    let message = joiner.stop(StopReason::Declined, rng).unwrap();
    let stopped = InviterEvent::Stopped(StopReason::Declined);
    assert_eq!(inviter.receive(&message).unwrap(), stopped);
    let (mut early, _) = Joiner::start(&code(), server(), rng);
    assert_eq!(early.stop(StopReason::Declined, rng), None);
}

proptest::proptest! {
    #[test]
    fn arbitrary_messages_never_panic(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
    ) {
        let rng = &mut SeedRng::new("arbitrary");
        let framed = [&[1, (bytes.len() % 7) as u8], bytes.as_slice()].concat();
        for message in [&bytes, &framed] {
            let (mut joiner, _) = Joiner::start(&code(), server(), rng);
            let _ = joiner.receive(message);
            let _ = Inviter::start(&code(), server(), message, rng);
        }
    }
}
