//! `zstn serve` as a child process, which always ends before this program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use crate::step::Step;

const START_LIMIT: Duration = Duration::from_secs(20);
/// How long to wait for the Ctrl-C handler after a child has ended because of the same
/// Ctrl-C.
const GRACE: Duration = Duration::from_millis(300);

/// A reason for [`Server::wait`] to return.
enum End {
    /// Ctrl-C, or a termination request.
    Asked,
    /// The server has closed its output, which means that it has ended.
    Gone,
}

/// A running `zstn serve`.
pub struct Server {
    child: Child,
    url: String,
    log: PathBuf,
    ends: Receiver<End>,
    show: Arc<AtomicBool>,
}

impl Server {
    /// Serves `directory` on `port`, or on a free port for 0.
    pub fn start(step: &mut Step, zstn: &Path, directory: &Path, port: u16) -> Result<Self> {
        let (sender, ends) = channel();
        let asked = sender.clone();
        // The handler is set before the child exists, so that the child is never left
        // running.
        ctrlc::set_handler(move || {
            // Without a receiver, this program is already ending.
            let _ = asked.send(End::Asked);
        })
        .context("Ctrl-C cannot be watched")?;
        let (messages, log) = step.sibling_log("server")?;
        let mut child = Command::new(zstn)
            .args(["serve", "--json", "--port", &port.to_string()])
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(messages)
            .spawn()
            .with_context(|| format!("{} could not be started", zstn.display()))?;
        let output = child.stdout.take();
        let mut server = Self {
            child,
            url: String::new(),
            log,
            ends,
            show: Arc::new(AtomicBool::new(false)),
        };
        let output = output.context("the server has no output")?;
        let show = Arc::clone(&server.show);
        let (ready, address) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                report_event(&line, &ready, show.load(Ordering::Relaxed));
            }
            drop(ready);
            let _ = sender.send(End::Gone);
        });
        match address.recv_timeout(START_LIMIT) {
            Ok(url) => server.url = url,
            Err(_) => return Err(server.gone("named no address")),
        }
        step.note(server.url.clone());
        Ok(server)
    }

    /// Returns the URL of the served directory, with a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns whether the user has requested a stop, for instance with Ctrl-C.
    pub fn is_stopping(&self) -> bool {
        // If the same Ctrl-C has ended a child, that may be noticed first.
        matches!(self.ends.recv_timeout(GRACE), Ok(End::Asked))
    }

    /// Prints each request until the user requests a stop.
    pub fn wait(&self) -> Result<()> {
        self.show.store(true, Ordering::Relaxed);
        if matches!(self.ends.recv(), Ok(End::Asked)) {
            return Ok(());
        }
        // The server also receives Ctrl-C, and may end first.
        match self.ends.recv_timeout(GRACE) {
            Ok(End::Asked) => Ok(()),
            _ => Err(self.gone("stopped")),
        }
    }

    fn gone(&self, how: &str) -> anyhow::Error {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        anyhow!("`zstn serve` {how}: {}", said.trim())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls fail only if the server has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn report_event(line: &str, ready: &Sender<String>, show: bool) {
    let Ok(event) = serde_json::from_str::<Value>(line) else {
        return;
    };
    match event["event"].as_str() {
        Some("listening") => {
            if let Some(url) = event["url"].as_str() {
                let _ = ready.send(with_slash(url));
            }
        }
        Some("request") if show => println!("    {}", request_line(&event)),
        _ => {}
    }
}

fn with_slash(url: &str) -> String {
    format!("{}/", url.trim_end_matches('/'))
}

/// Formats a request, such as `206  GET   /model.zstn   1.0 kB   bytes=0-1023`.
fn request_line(event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let line = format!(
        "{:>3}  {:<7} {:<40} {:>10}   {}",
        event["status"].as_u64().unwrap_or_default(),
        text("method"),
        text("path"),
        size(event["bytes"].as_u64().unwrap_or_default()),
        text("range"),
    );
    line.trim_end().to_owned()
}

/// Formats a number of bytes, such as `512 B`, `1.5 kB` or `90.9 MB`.
pub fn size(bytes: u64) -> String {
    const STEP: u64 = 1000;
    if bytes < STEP {
        return format!("{bytes} B");
    }
    let mut unit = STEP;
    let mut names = ["kB", "MB", "GB", "TB"].into_iter().peekable();
    while bytes >= unit.saturating_mul(STEP) && names.len() > 1 {
        unit *= STEP;
        names.next();
    }
    let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
    let name = names.peek().copied().unwrap_or_default();
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(999), "999 B");
        assert_eq!(size(1500), "1.5 kB");
        assert_eq!(size(90_868_376), "90.9 MB");
        assert_eq!(size(2_000_000_000_000_000), "2000.0 TB");
    }

    #[test]
    fn the_first_event_names_the_address() {
        let (ready, address) = channel();
        report_event("not json", &ready, false);
        report_event(
            r#"{"event":"listening","url":"http://127.0.0.1:8080"}"#,
            &ready,
            false,
        );
        assert_eq!(
            address.try_recv().ok().as_deref(),
            Some("http://127.0.0.1:8080/")
        );
    }

    #[test]
    fn requests_are_one_line() {
        let event = serde_json::json!({
            "event": "request", "method": "GET", "path": "/model.zstn",
            "range": "bytes=0-1023", "status": 206, "bytes": 1024,
        });
        let line = request_line(&event);
        assert!(line.starts_with("206  GET"));
        assert!(line.ends_with("1.0 kB   bytes=0-1023"));
    }
}
