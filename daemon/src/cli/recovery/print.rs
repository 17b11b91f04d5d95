//! A recovery kit as text for a screen and as a page for a printer.

use qrcode::render::svg;
use qrcode::types::QrError;
use qrcode::{EcLevel, QrCode};
use tidings_wire::linking::RecoveryKit;

/// What a person has to know about a kit.
const ADVICE: [&str; 3] = [
    "Whoever has these words has your account: keep them on paper, not on a computer.",
    "They work once; coming back with them prints new ones.",
    "With the words alone nobody can tell whether the server shows you all of what came last. If \
     it shows fewer entries than this kit names, it hides something.",
];

/// The kit as text.
pub fn text(kit: &RecoveryKit) -> String {
    let mut lines = vec!["Tidings recovery kit".to_owned(), String::new()];
    for row in words(kit).chunks(4) {
        lines.push(format!("  {}", row.join("  ").trim_end()));
    }
    lines.push(String::new());
    lines.push(format!("  account  {}", kit.account));
    lines.push(format!("  server   {}", kit.url));
    lines.push(format!("  entries  {}", kit.entries));
    lines.push(String::new());
    lines.push(format!("When every computer is lost: {}", command(kit)));
    lines.extend(ADVICE.map(str::to_owned));
    lines.join("\n")
}

/// The kit as one page of HTML that needs nothing else, with all of it as a QR code too.
///
/// # Errors
/// Never, for a kit: it fits into a QR code.
pub fn html(kit: &RecoveryKit) -> Result<String, QrError> {
    let code = QrCode::with_error_correction_level(scanned(kit), EcLevel::M)?;
    let code = code.render::<svg::Color<'_>>().min_dimensions(220, 220).build();
    // Inside HTML the declaration of an XML document has no place.
    let code = code.find("<svg").and_then(|start| code.get(start..)).unwrap_or_default();
    let words: String = words(kit)
        .iter()
        .map(|word| format!("<td>{}</td>", escaped(word)))
        .collect::<Vec<_>>()
        .chunks(4)
        .map(|row| format!("<tr>{}</tr>", row.concat()))
        .collect();
    let advice: String = ADVICE.iter().map(|line| format!("<p>{line}</p>")).collect();
    let (account, url, entries) = (kit.account, escaped(&kit.url), kit.entries);
    let command = escaped(&command(kit));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>Tidings recovery kit</title><style>\
         body{{font:14px sans-serif;max-width:42em;margin:2em auto}}\
         td{{font:18px monospace;padding:.3em 1em .3em 0}}code{{font-size:14px}}\
         </style></head><body><h1>Tidings recovery kit</h1><table>{words}</table>\
         <p>account <code>{account}</code><br>server <code>{url}</code><br>\
         entries <code>{entries}</code></p>{code}\
         <p>When every computer is lost: <code>{command}</code></p>{advice}</body></html>\n"
    ))
}

/// The words with their numbers.
fn words(kit: &RecoveryKit) -> Vec<String> {
    let words = kit.words.split(' ').enumerate();
    words.map(|(at, word)| format!("{:>2} {word:<8}", at + 1)).collect()
}

fn command(kit: &RecoveryKit) -> String {
    format!("tidings recover {} --account {} --entries {}", kit.url, kit.account, kit.entries)
}

/// What the QR code holds.
fn scanned(kit: &RecoveryKit) -> String {
    format!("{}\n{}", command(kit), kit.words)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use tidings_wire::AccountId;

    use super::*;

    fn kit(url: &str) -> RecoveryKit {
        RecoveryKit {
            account: AccountId([7; 16]),
            url: url.to_owned(),
            entries: 5,
            words: "legal winner thank year wave sausage worth useful legal winner thank yellow"
                .to_owned(),
        }
    }

    #[test]
    fn the_text_has_everything_that_coming_back_takes() {
        insta::assert_snapshot!(text(&kit("https://tidings.example.org")));
    }

    #[test]
    fn the_page_stands_alone_and_escapes_what_it_shows() {
        let page = html(&kit("https://a.example/<b>&\"'")).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.contains("<svg"));
        assert!(page.contains("https://a.example/&lt;b&gt;&amp;&quot;&#39;"));
        assert!(!page.contains("<b>") && !page.contains("<?xml"));
        for outside in ["src=", "href=", "<script", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        for word in ["legal", "sausage", "yellow"] {
            assert!(page.contains(word), "{word}");
        }
    }

    #[test]
    fn the_longest_kit_fits_into_its_code() {
        let kit = kit(&format!("https://{}.example", "a".repeat(250)));
        assert!(html(&kit).is_ok());
    }
}
