//! `zstn view`: shows a model in the browser.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, thread};

use clap::Args;
use zstn::{Error, Location, Result};
use zstn_serve::{Page, View};

use super::serve::{announce, request_json};
use super::{arguments, print, say, signals};

#[derive(Args)]
pub struct Options {
    /// A model: a file, an index of shards, a folder, or an address that the browser
    /// fetches (https://, hf://); a second one is compared with the first
    #[arg(required = true, num_args = 1..=2, value_name = "INPUT", value_parser = arguments::location())]
    inputs: Vec<Location>,
    /// Port, 0 for any free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Print the link without opening a browser
    #[arg(long)]
    no_open: bool,
    /// Use the viewer in this folder instead of the embedded one
    #[arg(long, value_name = "FOLDER")]
    page: Option<PathBuf>,
    /// Print one JSON object per line: the link, then every request (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let page = match &options.page {
        Some(folder) => Page::in_folder(folder)?,
        None => Page::included()?,
    };
    let signals = signals::catch();
    let mut view = View::bind(page, options.port)?;
    for input in &options.inputs {
        view = match input {
            Location::Path(path) => view.model(path)?,
            Location::Url(url) if is_read_by_browsers(url) => view.address(url.as_str()),
            _ => {
                return Err(Error::Usage(format!(
                    "the page cannot read {input}: name a file or a folder, or an address with \
                     https:// or hf://"
                )));
            }
        };
    }
    let handle = view.handle();
    signals.end_with(move || handle.stop());
    let url = view.url();
    match options.json {
        true => announce(print(serde_json::json!({"event": "listening", "url": url}))),
        false => {
            announce(print(url.clone()));
            say!("stop with Ctrl-C");
        }
    }
    if !options.no_open && has_display() {
        open(url);
    }
    let json = options.json;
    view.run(move |served| {
        if json {
            // The server continues even if the reader of its log has closed the pipe.
            let _ = print(request_json(&served));
        }
    })
}

fn is_read_by_browsers(url: &str) -> bool {
    let url = url.to_ascii_lowercase();
    ["https://", "http://", "hf://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
}

/// Returns whether a browser can open a window.
fn has_display() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(any(windows, target_os = "macos")) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Opens the link in the desktop's browser. If that fails, the user has the printed
/// link.
fn open(url: String) {
    let mut command = if cfg!(target_os = "macos") {
        Command::new("open")
    } else if cfg!(windows) {
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        command
    } else {
        Command::new("xdg-open")
    };
    command.arg(url);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // The child is waited for, so that it does not become a zombie process.
    thread::spawn(move || command.status());
}
