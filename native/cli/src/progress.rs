//! Reports about the work in progress on standard error: a bar, if standard error is a
//! terminal, and the messages of `--verbose`.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use indicatif::{ProgressBar, ProgressStyle};
use zstn::FinishedTensor;
use zstn::source::{HttpObserver, HttpOptions, HttpRequest};

use super::arguments::Report;
use super::{say, size, table, terminal};

/// A progress bar that implements the library's [`zstn::Progress`].
pub struct Watch {
    bar: ProgressBar,
    label: String,
    fetching: AtomicBool,
    /// The direction in which finished tensors are logged; `None` without `--verbose`.
    tensors: Option<Direction>,
}

impl zstn::Progress for Watch {
    fn begin(&self, len_bytes: u64) {
        self.bar.set_length(len_bytes);
    }

    fn advance(&self, len_bytes: u64) {
        if self.fetching.swap(false, Relaxed) {
            self.bar.set_message(self.label.clone());
        }
        self.bar.inc(len_bytes);
    }

    fn phase(&self, phase: zstn::Phase) {
        let label = match phase {
            zstn::Phase::RestoreBase => "restoring the base",
            _ => &self.label,
        };
        self.bar.reset();
        self.bar.set_length(0);
        self.bar.set_message(label.to_owned());
    }

    fn wants_tensors(&self) -> bool {
        self.tensors.is_some()
    }

    fn tensor(&self, tensor: &FinishedTensor<'_>) {
        if let Some(direction) = self.tensors {
            say_tensor(tensor, direction);
        }
    }

    fn fetching(&self, so_far_bytes: u64, len_bytes: Option<u64>) {
        self.fetching.store(true, Relaxed);
        let so_far = size::bytes(so_far_bytes);
        self.bar.set_message(match len_bytes {
            Some(len) => format!("fetching {so_far} of {}", size::bytes(len)),
            None => format!("fetching {so_far}"),
        });
    }
}

impl Watch {
    /// Shows how much of a file has been fetched.
    pub fn fetched(&self, so_far_bytes: u64, len_bytes: Option<u64>) {
        if let Some(len_bytes) = len_bytes {
            self.bar.set_length(len_bytes);
        }
        self.bar.set_position(so_far_bytes);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        terminal::set_bar(None);
        self.bar.finish_and_clear();
    }
}

/// Shows a bar. Its length is set when the work begins.
pub fn watch(label: &str, direction: Direction, report: Report) -> Watch {
    let bar = bar(label, report.is_silent());
    terminal::set_bar(Some(bar.clone()));
    Watch {
        bar,
        label: label.into(),
        fetching: AtomicBool::new(false),
        tensors: report.verbose.then_some(direction),
    }
}

/// Returns a bar whose length is not set yet, or a hidden one if `quiet`.
fn bar(label: &str, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0).with_message(label.to_owned());
    let style = ProgressStyle::with_template(
        "{msg} {wide_bar:.cyan/dim} {decimal_bytes:>9} / {decimal_total_bytes:<9} \
         {decimal_bytes_per_sec:>11}  {eta:>4} left",
    );
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("━━─"));
    }
    bar
}

/// An observer that logs every request to standard error.
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
fn say_tensor(tensor: &FinishedTensor<'_>, direction: Direction) {
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
