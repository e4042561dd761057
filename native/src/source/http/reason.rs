//! Extracts the reason that a server states for a refusal.

use std::io::Read;

use ureq::http::header;
use zstn_net::shown;

use super::answer::{Answer, Framing};

/// The maximum length of a body that is searched for a reason, in bytes.
const MAX_BODY_BYTES: u64 = 16 << 10;
/// The maximum length of a displayed reason, in characters.
const MAX_CHARACTERS: usize = 300;

/// Returns the reason that an object store states for a refusal, formatted as
/// ` (REASON; CODE)`, or nothing. It consists of the XML elements `Message` and `Code`,
/// without the secrets of the requested address.
pub(super) fn of(answer: &mut Answer) -> String {
    let is_xml = answer
        .headers
        .get(header::CONTENT_TYPE)
        .is_none_or(|kind| kind.as_bytes().windows(3).any(|part| part == b"xml"));
    let is_short = match answer.framing {
        Framing::Length(len) => (1..=MAX_BODY_BYTES).contains(&len),
        Framing::Chunked => is_xml,
        Framing::Close => false,
    };
    if !is_xml || !is_short {
        return String::new();
    }
    let mut body = Vec::new();
    let mut part = answer.body.as_reader().take(MAX_BODY_BYTES);
    // The bytes before a broken connection may contain the reason.
    let _ = part.read_to_end(&mut body);
    let body = String::from_utf8_lossy(&body);
    let reason = match (element(&body, "Message"), element(&body, "Code")) {
        (Some(message), Some(code)) => format!("{message}; {code}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return String::new(),
    };
    let reason = shown::answer(&reason, &answer.asked);
    let end = reason.char_indices().nth(MAX_CHARACTERS);
    let end = end.map_or(reason.len(), |(end, _)| end);
    format!(" ({})", &reason[..end])
}

/// Returns the text of the first XML element with this name, on one line.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once("</")?;
    let words: Vec<&str> = value.split_whitespace().collect();
    let plain = words.join(" ");
    let mut plain = plain.trim_end_matches('.').to_owned();
    for (escape, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ] {
        plain = plain.replace(escape, character);
    }
    (!plain.is_empty()).then_some(plain)
}
