use serde_json::{Value, json};

use super::*;
use crate::text;

const NOW: Millis = Millis(1_700_000_000_000);
const LIFE: Duration = Duration::from_secs(900);
const ACCOUNT: AccountId = AccountId([1; 16]);
const DEVICE: DeviceId = DeviceId([2; 16]);

fn server(byte: u8) -> (Identity, Tokens) {
    let identity = Identity::new(&[byte; 32]);
    let tokens = Tokens::new(&identity);
    (identity, tokens)
}

/// A token of any header and claims, signed by a server's key.
fn forge(identity: &Identity, header: &Value, claims: &Value) -> String {
    let message =
        format!("{}.{}", text::encode(header.to_string()), text::encode(claims.to_string()));
    let signature = text::encode(identity.sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn header(identity: &Identity) -> Value {
    json!({ "typ": TYPE, "alg": "EdDSA", "kid": identity.kid() })
}

fn claims(identity: &Identity) -> Value {
    let now = NOW.0 / 1_000;
    json!({
        "aud": identity.server(), "sub": ACCOUNT, "dev": DEVICE,
        "iat": now, "nbf": now - 60, "exp": now + 900,
    })
}

#[test]
fn a_token_verifies_until_it_ends() {
    let (_, tokens) = server(7);
    let (token, expires) = tokens.issue(ACCOUNT, DEVICE, NOW, LIFE).unwrap();
    assert!(token.len() < MAX_LEN / 2);
    let bearer = Bearer { account: ACCOUNT, device: DEVICE, expires };
    assert_eq!(tokens.verify(&token, NOW), Ok(bearer));
    assert_eq!(expires, NOW.plus(LIFE));
    assert_eq!(tokens.verify(&token, Millis(expires.0 - 1)), Ok(bearer));
    assert_eq!(tokens.verify(&token, expires), Err(TokenError::Expired));
    // An hour before it was issued it is not valid yet.
    assert_eq!(tokens.verify(&token, Millis(NOW.0 - 3_600_000)), Err(TokenError::Invalid));
}

#[test]
fn the_forged_token_of_the_right_shape_is_the_issued_one() {
    // Otherwise the table below would prove nothing.
    let (identity, tokens) = server(7);
    let token = forge(&identity, &header(&identity), &claims(&identity));
    assert!(tokens.verify(&token, NOW).is_ok());
}

#[test]
fn forged_tokens_are_refused() {
    let (identity, tokens) = server(7);
    let (other, _) = server(8);
    let (h, c) = (header(&identity), claims(&identity));
    let with = |base: &Value, name: &str, value: Value| {
        let mut changed = base.clone();
        changed[name] = value;
        changed
    };
    let without = |base: &Value, name: &str| {
        let mut changed = base.clone();
        changed.as_object_mut().unwrap().remove(name);
        changed
    };
    let good = forge(&identity, &h, &c);
    let parts: Vec<&str> = good.split('.').collect();
    let now = NOW.0 / 1_000;
    let twice = r#"{"typ":"tidings+jwt","alg":"EdDSA","kid":"KID"}"#.replace("KID", identity.kid());
    let duplicate_claims = {
        let claims =
            c.to_string().replacen('{', r#"{"sub":"00000000000000000000000000000000","#, 1);
        let message = format!("{}.{}", text::encode(twice), text::encode(claims));
        format!("{message}.{}", text::encode(identity.sign(message.as_bytes())))
    };
    let table = [
        ("empty", String::new()),
        ("one part", "a".to_owned()),
        ("none, unsigned", {
            let none = with(&h, "alg", json!("none"));
            format!("{}.{}.", text::encode(none.to_string()), parts[1])
        }),
        ("none, in capitals", forge(&identity, &with(&h, "alg", json!("NONE")), &c)),
        ("HS256 with the public key as secret", {
            let hs = with(&h, "alg", json!("HS256"));
            let message = format!("{}.{}", text::encode(hs.to_string()), parts[1]);
            // The attack computes an HMAC; any keyed hash shows that the algorithm is not taken.
            let mac = blake3::keyed_hash(identity.public(), message.as_bytes());
            format!("{message}.{}", text::encode(mac.as_bytes()))
        }),
        ("RS256", forge(&identity, &with(&h, "alg", json!("RS256")), &c)),
        ("ES256", forge(&identity, &with(&h, "alg", json!("ES256")), &c)),
        ("no algorithm", forge(&identity, &without(&h, "alg"), &c)),
        ("another server's key", forge(&other, &h, &c)),
        ("another server's token", forge(&other, &header(&other), &claims(&other))),
        ("wrong audience", forge(&identity, &h, &with(&c, "aud", json!(other.server())))),
        ("no audience", forge(&identity, &h, &without(&c, "aud"))),
        ("audience as a list", forge(&identity, &h, &with(&c, "aud", json!([identity.server()])))),
        ("wrong type", forge(&identity, &with(&h, "typ", json!("JWT")), &c)),
        ("no type", forge(&identity, &without(&h, "typ"), &c)),
        ("wrong key id", forge(&identity, &with(&h, "kid", json!(other.kid())), &c)),
        ("no key id", forge(&identity, &without(&h, "kid"), &c)),
        ("a key of its own", {
            let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": other.public_text() });
            forge(&other, &with(&h, "jwk", jwk), &c)
        }),
        ("a key elsewhere", forge(&identity, &with(&h, "jku", json!("https://x.test")), &c)),
        ("an extension", forge(&identity, &with(&h, "crit", json!(["exp"])), &c)),
        ("begins tomorrow", forge(&identity, &h, &with(&c, "nbf", json!(now + 86_400)))),
        ("issued after its end", forge(&identity, &h, &with(&c, "iat", json!(now + 901)))),
        ("no end", forge(&identity, &h, &without(&c, "exp"))),
        ("negative end", forge(&identity, &h, &with(&c, "exp", json!(-1)))),
        ("end as text", forge(&identity, &h, &with(&c, "exp", json!("9999999999")))),
        ("no device", forge(&identity, &h, &without(&c, "dev"))),
        ("account in capitals", { forge(&identity, &h, &with(&c, "sub", json!("AA".repeat(16)))) }),
        ("an unknown claim", forge(&identity, &h, &with(&c, "admin", json!(true)))),
        ("a claim twice", duplicate_claims),
        ("cut signature", good[..good.len() - 4].to_owned()),
        (
            "changed claims",
            format!(
                "{}.{}.{}",
                parts[0],
                text::encode(with(&c, "sub", json!(AccountId([9; 16]))).to_string()),
                parts[2]
            ),
        ),
        ("padding", format!("{good}=")),
        ("huge", forge(&identity, &h, &with(&c, "note", json!("x".repeat(100_000))))),
    ];
    for (what, token) in table {
        assert_eq!(tokens.verify(&token, NOW), Err(TokenError::Invalid), "{what}");
    }
    let expired = forge(&identity, &h, &with(&c, "exp", json!(now)));
    assert_eq!(tokens.verify(&expired, NOW), Err(TokenError::Expired));
}
