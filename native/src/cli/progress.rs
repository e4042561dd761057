//! Progress bars: on a terminal, on standard error, and nowhere else.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use indicatif::{ProgressBar, ProgressStyle};

use super::size;

/// A bar that the library drives.
pub struct Watch {
    bar: ProgressBar,
    label: String,
    fetching: AtomicBool,
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
    /// The bar itself, for lines printed above it.
    pub fn bar(&self) -> &ProgressBar {
        &self.bar
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar that learns its length when the work begins.
pub fn watch(label: &str, quiet: bool) -> Watch {
    Watch {
        bar: bar(label, 0, quiet),
        label: label.into(),
        fetching: AtomicBool::new(false),
    }
}

/// A bar for `len_bytes` bytes of work.
pub fn bar(label: &str, len_bytes: u64, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(len_bytes).with_message(label.to_owned());
    let style = ProgressStyle::with_template(
        "{msg} {wide_bar:.cyan/dim} {decimal_bytes:>9} / {decimal_total_bytes:<9} \
         {decimal_bytes_per_sec:>11}  {eta:>4} left",
    );
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("━━─"));
    }
    bar
}
