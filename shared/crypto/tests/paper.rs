//! The paper key's words, as people write and read them.

use secrecy::ExposeSecret;
use tidings_crypto::*;
use tidings_proof::DeviceKind;

use crate::support::*;

const WORDS: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";

#[test]
fn words_make_the_same_device_again() {
    let paper = PaperKey::generate(&mut random::system());
    let words = paper.words();
    assert_eq!(words.expose_secret().split(' ').count(), 12);
    let keys = paper.device_keys();
    assert_eq!(keys.public().kind, DeviceKind::Paper);
    let again = PaperKey::parse(words.expose_secret()).unwrap().device_keys();
    assert_eq!(again.public(), keys.public());
    let other = PaperKey::generate(&mut random::system()).device_keys();
    assert_ne!(other.id(), keys.id());
}

#[test]
fn words_are_read_as_people_write_them() {
    let right = PaperKey::parse(WORDS).unwrap().device_keys().id();
    let numbered: String = WORDS
        .split(' ')
        .enumerate()
        .map(|(at, word)| format!("{}. {}\n", at + 1, word.to_uppercase()))
        .collect();
    let wide: String = WORDS
        .chars()
        .map(|c| match c {
            'a'..='z' => char::from_u32(u32::from(c) - u32::from('a') + 0xff41).unwrap(),
            _ => '\u{3000}',
        })
        .collect();
    let turkish = WORDS.to_uppercase().replace('I', "\u{130}");
    let accented = WORDS.replace('e', "e\u{301}").replace('u', "\u{fc}");
    for same in [
        numbered,
        format!("  {}\t", WORDS.replace(' ', " ,\r\n ")),
        WORDS.replace(' ', "-"),
        WORDS.replace(' ', "\u{a0}"),
        wide,
        turkish,
        accented,
    ] {
        assert_eq!(PaperKey::parse(&same).unwrap().device_keys().id(), right, "{same:?}");
    }
}

#[test]
fn the_wrong_word_is_named() {
    let wrong = |text: &str| PaperKey::parse(text).unwrap_err();
    assert_eq!(
        wrong(&WORDS.replace("sausage", "sausege")),
        PaperKeyError::UnknownWord { number: 6, word: "sausege".into() }
    );
    assert_eq!(wrong(&WORDS.replace("yellow", "")), PaperKeyError::WordCount(11));
    assert_eq!(wrong(&format!("{WORDS} zoo")), PaperKeyError::WordCount(13));
    assert_eq!(wrong(""), PaperKeyError::WordCount(0));
    assert_eq!(wrong(&WORDS.replace("yellow", "zoo")), PaperKeyError::Checksum);
    assert_eq!(
        wrong(&"ü".repeat(5_000)),
        PaperKeyError::UnknownWord { number: 1, word: "u".repeat(32) }
    );
}

#[test]
fn a_paper_key_recovers_an_account() {
    let rng = &mut SeedRng::new("recover");
    let mut account = Account::new(rng);
    let paper = PaperKey::generate(rng);
    let linked = account.link(&paper.device_keys(), rng);
    let words = paper.words();
    // All computers are lost; what is left are the words, the account id and the server.
    let keys = PaperKey::parse(words.expose_secret()).unwrap().device_keys();
    let chain = tidings_proof::Chain::fold(account.chain.account(), &account.entries).unwrap();
    assert!(chain.is_active(keys.id()));
    let mut ring = Keyring::new(chain.account());
    ring.accept_wrap(&chain, &keys, &linked.wraps[0]).unwrap();
    let fresh = DeviceKeys::generate(rng);
    let signature = fresh.co_sign(chain.account(), chain.next_index());
    let added = entries::add_device(&keys, &chain, &ring, fresh.public(), signature, rng).unwrap();
    let mut fresh_ring = Keyring::new(chain.account());
    fresh_ring.accept_wrap(&added.chain, &fresh, &added.wraps[0]).unwrap();
    assert_eq!(fresh_ring.tag(&app(), "films"), account.ring.tag(&app(), "films"));
}
