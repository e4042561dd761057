//! Progress bars, which are shown only if standard error is a terminal.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};

use super::arguments::Report;
use super::size;
use super::verbose::{self, Direction};

/// The bar that is shown, if any.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Calls `write`, which writes to standard error, without garbling the bar.
pub fn above_bar(write: impl FnOnce()) {
    let bar = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

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

    fn tensor(&self, tensor: &zstn::FinishedTensor<'_>) {
        if let Some(direction) = self.tensors {
            verbose::say_tensor(tensor, direction);
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
        *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.bar.finish_and_clear();
    }
}

/// Shows a bar. Its length is set when the work begins.
pub fn watch(label: &str, direction: Direction, report: Report) -> Watch {
    let bar = bar(label, report.is_silent());
    *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    Watch {
        bar,
        label: label.into(),
        fetching: AtomicBool::new(false),
        tensors: report.verbose.then_some(direction),
    }
}

/// Returns a bar without a length.
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
