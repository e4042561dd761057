//! Progress bars: on a terminal, on standard error, and nowhere else.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar as the library drives it.
pub struct Watch(pub ProgressBar);

impl zstn::Progress for Watch {
    fn begin(&self, len_bytes: u64) {
        self.0.set_length(len_bytes);
    }

    fn advance(&self, len_bytes: u64) {
        self.0.inc(len_bytes);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A bar that learns its length when the work begins.
pub fn watch(label: &str, quiet: bool) -> Watch {
    Watch(bar(label, 0, quiet))
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
