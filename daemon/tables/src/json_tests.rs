//! What is read and what is refused, with positions.

use super::*;

fn problem(text: &str) -> (usize, JsonProblem) {
    let error = parse(text.as_bytes()).unwrap_err();
    (error.at, error.problem)
}

#[test]
fn integers_keep_every_digit_or_are_refused() {
    for exact in [
        "0",
        "-1",
        "9007199254740993",
        "9196877626998784",
        "9196877626998785",
        "-9223372036854775808",
        "18446744073709551615",
    ] {
        assert_eq!(parse(exact.as_bytes()).unwrap().to_string(), exact);
    }
    for refused in ["18446744073709551616", "-9223372036854775809", &"9".repeat(400)] {
        assert_eq!(problem(&format!("[{refused}]")), (1, JsonProblem::IntegerOutOfRange));
    }
}

#[test]
fn floats_keep_every_bit() {
    for (text, shown) in [
        ("1.0", "1.0"),
        ("-0", "-0.0"),
        ("1.8446744073709552e19", "1.8446744073709552e+19"),
        ("1E2", "100.0"),
        ("5e-324", "5e-324"),
        ("0.1", "0.1"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("1e-999", "0.0"),
    ] {
        let value = parse(text.as_bytes()).unwrap();
        assert_eq!(value.to_string(), shown);
        assert_eq!(parse(shown.as_bytes()).unwrap(), value);
    }
    assert_eq!(problem("1e309"), (0, JsonProblem::NumberOutOfRange));
    assert_ne!(parse(b"1").unwrap(), parse(b"1.0").unwrap());
}

#[test]
fn surrogates_come_in_pairs() {
    assert_eq!(parse(br#""\ud83d\udc4a""#).unwrap(), Value::from("👊"));
    assert_eq!(parse(br#""\u0000\u00e9\uFFFF""#).unwrap(), Value::from("\0é\u{ffff}"));
    for (text, at) in [
        (r#"{"t":"cut \ud83d"}"#, 10),
        (r#""\udc4a""#, 1),
        (r#""\ud83dx""#, 1),
        (r#""\ud83d\n""#, 1),
        (r#""\ud83d\ud83d""#, 1),
        (r#"{"\ud83d":1}"#, 2),
    ] {
        assert_eq!(problem(text), (at, JsonProblem::LoneSurrogate), "{text}");
    }
}

#[test]
fn depth_is_refused_before_it_is_descended_into() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(parse(nested(64).as_bytes()).unwrap().depth(), 64);
    assert_eq!(problem(&nested(65)), (64, JsonProblem::TooDeep(64)));
    assert_eq!(problem(&"[".repeat(200_000)), (64, JsonProblem::TooDeep(64)));
    assert_eq!(problem(&r#"{"":"#.repeat(200_000)), (256, JsonProblem::TooDeep(64)));
    assert!(parse_nested(nested(66).as_bytes(), 66).is_ok());
    // Siblings do not add up.
    assert!(parse(format!("[{}]", vec![nested(63); 9].join(",")).as_bytes()).is_ok());
}

#[test]
fn any_legal_key_is_kept() {
    let text = r#"{"":3,"$type":"entry",".0.0.0.2":2,"__proto__":{"x":1},"a":{"b":{"c":2}},"a.b":{"c":1},"constructor":1,"op":"insert","table":"t","ttl":"1234"}"#;
    let value = parse(text.as_bytes()).unwrap();
    assert_eq!(value.to_string(), text);
    assert_eq!(
        problem(r#"{"a":1,"a":2}"#),
        (0, JsonProblem::DuplicateKey("a".into())),
        "a second meaning for one key"
    );
}

#[test]
fn what_is_not_json_is_refused() {
    for text in [
        "",
        " ",
        "[",
        "{",
        "\"",
        "[1",
        "[1,",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "1.",
        "1e",
        "-",
        "\"\\",
        "\"\\u12",
        "\"\\ud83d\\",
    ] {
        let (at, _) = problem(text);
        assert!(at <= text.len());
    }
    for text in [
        "[1,]",
        "{,}",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "+1",
        ".5",
        "1.e2",
        "--1",
        "NaN",
        "Infinity",
        "-Infinity",
        "tru",
        "nul",
        "True",
        "[1]x",
        "'a'",
        "\"\n\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\u{feff}1",
        "/**/1",
        "1 2",
    ] {
        assert!(
            matches!(problem(text), (_, JsonProblem::Expected(_) | JsonProblem::Ended)),
            "{text}"
        );
    }
    assert_eq!(parse(b"\"ab\xff\""), Err(JsonError { at: 3, problem: JsonProblem::NotUtf8 }));
    assert_eq!(parse(b" \t\r\n[ 1 , {\"a\" : null} ] ").unwrap().to_string(), r#"[1,{"a":null}]"#);
}

#[test]
fn agrees_with_serde_json_on_plain_texts() {
    for text in [r#"{"a":[1,-2,3.5,"x\"\\\/\b\f\n\r\t",true,false,null,{}],"b":[]}"#, "[]", "\"é\""]
    {
        let theirs: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse(text.as_bytes()).unwrap().to_string(), theirs.to_string());
    }
}
