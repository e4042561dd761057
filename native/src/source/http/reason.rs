//! The reason that a server gives for a refusal.

use std::io::Read;

use ureq::http::header;
use zstn_net::shown;

use super::answer::{Answer, Framing};

/// The longest body in which a reason is looked for, in bytes.
const MAX_BODY_BYTES: u64 = 16 << 10;
/// The longest reason that is shown, in characters.
const MAX_CHARACTERS: usize = 300;

/// Returns what an object store says of a refusal: ` (REASON; CODE)`, or nothing. It
/// is the text of the elements `Message` and `Code` of its XML, without what is secret
/// in the address that was asked.
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
    // What has arrived until it breaks off may do.
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

/// Returns the text of the first XML element of this name, on one line.
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
