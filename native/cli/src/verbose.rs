//! The messages of `--verbose`.

use std::borrow::Cow;
use std::sync::Arc;

use zstn::FinishedTensor;
use zstn::source::{HttpObserver, HttpOptions, HttpRequest};

use super::{say, size, table};

/// Logs every request to standard error.
struct Requests;

/// Returns options that log every request.
pub fn say_requests(http: HttpOptions) -> HttpOptions {
    http.observer(Arc::new(Requests))
}

impl HttpObserver for Requests {
    fn request(&self, request: &HttpRequest) {
        let HttpRequest {
            method, host, path, ..
        } = request;
        let range = request.range.as_deref();
        let range = range.map_or(String::new(), |range| format!(" {range}"));
        let status = match request.status {
            Some(status) => status.to_string().into(),
            None => Cow::Borrowed("no answer"),
        };
        let sent = match request.sent_bytes {
            0 => String::new(),
            bytes => format!("{bytes} B sent, "),
        };
        let attempt = match request.attempt {
            1 => String::new(),
            attempt => format!(", attempt {attempt}"),
        };
        say!(
            "{method} {host}{path}{range}: {status}, {sent}{} B, {} ms{attempt}",
            request.received_bytes,
            request.elapsed.as_millis()
        );
    }

    fn read_whole(&self, file: &str, len_bytes: u64) {
        say!(
            "{file}: its server ignores ranges, so all {} were read (--max-full-download)",
            size::bytes(len_bytes)
        );
    }
}

/// The direction in which tensors are converted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The original is converted to the stored data.
    Packing,
    /// The stored data is converted to the original.
    Reading,
}

/// Logs a finished tensor.
pub fn say_tensor(tensor: &FinishedTensor<'_>, direction: Direction) {
    let dtype = tensor.dtype.map_or("", |dtype| dtype.name());
    let (original, packed) = (tensor.original_bytes, tensor.packed_bytes);
    let (from, to) = match direction {
        Direction::Packing => (original, packed),
        Direction::Reading => (packed, original),
    };
    say!(
        "{}: {dtype} {}, {}: {from} → {to} B ({})",
        tensor.name,
        table::shape(tensor.shape),
        tensor.storage,
        size::ratio(original, packed)
    );
}
