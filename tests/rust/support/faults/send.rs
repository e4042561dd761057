//! Sends the answer that an [`Answer`] describes.

use std::io::{self, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use super::table::{Answer, End, Framing, Version};
use crate::fault_server::{Asked, Served, Then, drip, hold, pour};

const CHUNK_BYTES: usize = 50_000;
/// Delay before a reset, so that the client has received the bytes already sent.
const BEFORE_RESET: Duration = Duration::from_millis(20);

/// Sends the answer to `asked`. `other_origin` is the address of the second origin.
pub(super) fn perform(
    answer: &Answer,
    asked: &Asked,
    served: &Served,
    other_origin: &str,
    to: &mut TcpStream,
) -> io::Result<Then> {
    for piece in &answer.before {
        to.write_all(&piece.bytes())?;
    }
    if let Some(raw) = &answer.raw {
        for piece in raw {
            to.write_all(&piece.bytes())?;
        }
        return end(answer, to);
    }
    if answer.end == End::Reset && answer.cut_bytes.is_none() {
        return Ok(Then::Reset);
    }
    if answer.cut_bytes.is_none() && matches!(answer.end, End::Stall) {
        return end(answer, to);
    }
    let Message { head, body } = message(answer, asked, served, other_origin);
    let drips = answer.end == End::Drip;
    if drips && answer.cut_bytes.is_none() {
        return drip(to, head.into_iter().chain(std::iter::repeat(b'a')));
    }
    to.write_all(&head)?;
    if asked.method == "HEAD" {
        return Ok(Then::Keep);
    }
    let sent = answer.cut_bytes.unwrap_or(body.len()).min(body.len());
    let is_cut = sent < body.len() || answer.end == End::Endless;
    if answer.trickle {
        return drip(to, body);
    }
    match answer.framing {
        Framing::Chunked => {
            for chunk in body[..sent].chunks(CHUNK_BYTES) {
                send_chunk(to, chunk)?;
            }
            if answer.end == End::Endless {
                loop {
                    send_chunk(to, &[0; 0x8000])?;
                }
            }
            if !is_cut {
                to.write_all(b"0\r\n\r\n")?;
            }
        }
        Framing::Length | Framing::Close => to.write_all(&body[..sent])?,
    }
    match answer.framing {
        Framing::Close if answer.end == End::Keep => Ok(Then::Close),
        _ => end(answer, to),
    }
}

fn send_chunk(to: &mut TcpStream, chunk: &[u8]) -> io::Result<()> {
    to.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
    to.write_all(chunk)?;
    to.write_all(b"\r\n")
}

fn end(answer: &Answer, to: &mut TcpStream) -> io::Result<Then> {
    match answer.end {
        End::Keep => Ok(Then::Keep),
        End::Close => Ok(Then::Close),
        End::Reset => {
            std::thread::sleep(BEFORE_RESET);
            Ok(Then::Reset)
        }
        End::Stall => {
            hold(to);
            Ok(Then::Close)
        }
        End::Endless => pour(to, &[b'a'; 65536]),
        End::Drip => drip(to, std::iter::repeat(b'a')),
    }
}

struct Message {
    head: Vec<u8>,
    body: Vec<u8>,
}

fn message(answer: &Answer, asked: &Asked, served: &Served, other_origin: &str) -> Message {
    let file = match answer.file {
        Version::Model => &served.bytes,
        Version::Other => &served.other,
    };
    let total = file.len();
    let range = asked
        .range
        .clone()
        .filter(|_| !answer.ignores("Range") && is_for(answer, asked));
    let is_file = answer.status.is_none_or(|status| status < 300);
    let mut headers = Headers::default();
    headers.set("Date", "{date}");
    let mut sent = 0..total;
    let (mut status, mut body);
    match range {
        _ if !is_file => {
            status = 200;
            body = b"no".to_vec();
        }
        // No range of an empty file is satisfiable.
        Some(range) if range.start >= total => {
            status = 416;
            body = Vec::new();
            headers.set("Content-Range", "bytes */{total}");
        }
        Some(range) => {
            sent = shifted(&range, answer, total);
            status = 206;
            body = file[sent.clone()].to_vec();
            headers.set("Content-Range", "bytes {first}-{last}/{total}");
        }
        None => {
            status = 200;
            body = file.clone();
        }
    }
    if is_file {
        headers.set("ETag", "\"v1\"");
    }
    status = answer.status.unwrap_or(status);
    if answer.gzip {
        body = gzip(&body);
        headers.set("Content-Encoding", "gzip");
    }
    let len = body.len();
    body.extend_from_slice(answer.append.as_bytes());
    body.truncate(answer.body_bytes.unwrap_or(body.len()));
    match answer.framing {
        Framing::Length => headers.set("Content-Length", &body.len().to_string()),
        Framing::Chunked => headers.set("Transfer-Encoding", "chunked"),
        Framing::Close => headers.set("Connection", "close"),
    }
    for (name, value) in &answer.headers {
        headers.remove(name);
        if let Some(value) = value {
            headers.set(name, value);
        }
    }
    let values = [
        ("{first}", sent.start.to_string()),
        ("{last}", sent.end.saturating_sub(1).to_string()),
        ("{total}", total.to_string()),
        ("{len}", len.to_string()),
        ("{other}", other_origin.to_owned()),
    ];
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers.0 {
        let value = values.iter().fold(dated(&value), |text, (hole, value)| {
            text.replace(hole, value)
        });
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    Message {
        head: head.into_bytes(),
        body,
    }
}

#[derive(Default)]
struct Headers(Vec<(String, String)>);

impl Headers {
    fn set(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }

    fn remove(&mut self, name: &str) {
        self.0.retain(|known| !known.0.eq_ignore_ascii_case(name));
    }
}

/// Returns whether the request has no `If-Range`, or one that matches the version that
/// the answer sends.
fn is_for(answer: &Answer, asked: &Asked) -> bool {
    let Some(condition) = &asked.if_range else {
        return true;
    };
    let own = |name: &str| {
        let mut headers = answer.headers.iter();
        headers
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.clone())
    };
    let etag = own("ETag").unwrap_or_else(|| Some("\"v1\"".into()));
    let validator = etag.or_else(|| own("Last-Modified").flatten());
    answer.ignores("If-Range") || validator.as_ref() == Some(condition)
}

fn shifted(range: &Range<usize>, answer: &Answer, total: usize) -> Range<usize> {
    let sends = &answer.sends;
    let moved = |position: usize, by: i64| {
        let by_bytes = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
        let moved = match by < 0 {
            true => position.saturating_sub(by_bytes),
            false => position.saturating_add(by_bytes),
        };
        moved.min(total)
    };
    let start = sends
        .position
        .unwrap_or_else(|| moved(range.start, sends.start));
    let end = match sends.position {
        Some(position) => moved(position + range.len(), 0),
        None => moved(range.end, sends.end),
    };
    let len = match sends.half {
        true => (end - start).div_ceil(2),
        false => end - start,
    };
    start..start + len.min(sends.at_most.unwrap_or(usize::MAX))
}

/// Replaces `{date}` and `{date+SECONDS}` with HTTP dates.
fn dated(text: &str) -> String {
    let Some((before, rest)) = text.split_once("{date") else {
        return text.to_owned();
    };
    let (offset, after) = rest.split_once('}').unwrap_or_default();
    let seconds = offset.trim_start_matches('+').parse().unwrap_or(0);
    let date = SystemTime::now() + Duration::from_secs(seconds);
    format!("{before}{}{after}", httpdate::fmt_http_date(date))
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        300..=399 => "Elsewhere",
        _ => "Refused",
    }
}

/// Returns `bytes` as a gzip file of stored blocks.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = bytes.chunks(0xffff).peekable();
    if blocks.peek().is_none() {
        file.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        file.push(u8::from(blocks.peek().is_none()));
        let len = u16::try_from(block.len()).unwrap_or(u16::MAX);
        file.extend(len.to_le_bytes());
        file.extend((!len).to_le_bytes());
        file.extend(block);
    }
    file.extend(crc32(bytes).to_le_bytes());
    let len = u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or_default();
    file.extend(len.to_le_bytes());
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(sum & 1))
        })
    })
}
