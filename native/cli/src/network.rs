//! Options for inputs and outputs on servers.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};

use super::arguments::Destination;
use super::size;

/// Maximum length of a file of headers, in bytes. Servers refuse longer headers.
const MAX_HEADERS_BYTES: u64 = 256 << 10;

/// Maximum value of `--timeout` in seconds: one day.
const MAX_SECONDS: u64 = 24 * 60 * 60;

/// Limits for requests to servers.
#[derive(Args)]
pub struct Patience {
    /// Retry a request that failed for a transient reason up to N times [default: 3]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Give up after N seconds without progress, including retries [default: 55]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    timeout: Option<u64>,
    #[command(flatten)]
    certificates: Certificates,
}

/// Certificates that are trusted in addition to the system's.
#[derive(Args)]
pub struct Certificates {
    /// Also trust the certificates in a PEM file, such as those of a company's own
    /// authority
    #[arg(long, value_name = "FILE")]
    pub ca_certificate: Option<PathBuf>,
}

impl Certificates {
    /// Trusts the certificates in all further connections of this process.
    ///
    /// # Errors
    /// If the file of certificates cannot be used.
    pub fn trust(&self) -> Result<()> {
        match &self.ca_certificate {
            Some(file) => zstn::source::trust_certificates(file),
            None => Ok(()),
        }
    }
}

/// The limit for downloading whole files from servers without ranges, for verbs that
/// read single tensors.
#[derive(Args, Clone, Copy)]
pub struct FullDownload {
    /// If a server ignores range requests, read files of up to SIZE whole; 0 for none
    /// [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Addresses")]
    max_full_download: Option<u64>,
}

impl FullDownload {
    /// Sets the limit in `http`, if it is given.
    pub fn add_to(self, mut http: HttpOptions) -> HttpOptions {
        if let Some(bytes) = self.max_full_download {
            http.max_full_download_bytes = bytes;
        }
        http
    }
}

#[derive(Args)]
#[command(next_help_heading = "Addresses")]
pub struct Network {
    // There is no value parser: clap would print a value that the parser rejects, which
    // may contain a token.
    /// Send a header, like 'Authorization: Bearer TOKEN', only to the server of the
    /// input, or to that of the output if no input is on a server; @FILE reads headers
    /// from a file, one per line, which keeps them out of the process list (repeatable)
    #[arg(long = "header", value_name = "NAME: VALUE|@FILE")]
    headers: Vec<String>,
    #[command(flatten)]
    patience: Patience,
}

impl Patience {
    /// Returns HTTP options with these limits.
    ///
    /// # Errors
    /// If the file of certificates cannot be used.
    pub fn options(&self) -> Result<HttpOptions> {
        self.certificates.trust()?;
        let mut options = HttpOptions::default();
        if let Some(retries) = self.retries {
            options.retries = retries;
        }
        if let Some(seconds) = self.timeout {
            let timeout = Duration::from_secs(seconds);
            // If the timeout is long enough, it leaves time for a second attempt.
            options.idle_timeout = timeout.min(options.idle_timeout.max(timeout / 2));
            options.connect_timeout = options.connect_timeout.min(timeout);
            options.give_up_after = timeout;
        }
        Ok(options)
    }
}

impl Network {
    /// Returns the HTTP options for reading `inputs`. Only their server receives the
    /// headers. Other addresses, such as that of a base, are not among the inputs.
    pub fn options(&self, inputs: &[Location]) -> Result<HttpOptions> {
        self.options_for(inputs, &[])
    }

    /// Returns the HTTP options for writing `outputs` from `inputs`. If no input is on
    /// a server, the server of the outputs receives the headers.
    pub fn options_for(&self, inputs: &[Location], outputs: &[Destination]) -> Result<HttpOptions> {
        let mut options = self.patience.options()?;
        if self.headers.is_empty() {
            return Ok(options);
        }
        let server = server(inputs, outputs)?;
        for header in &self.headers {
            let Some(file) = header.strip_prefix('@') else {
                options = add(options, &server, header, "--header")?;
                continue;
            };
            for line in read(file)?.lines().filter(|line| !line.trim().is_empty()) {
                options = add(options, &server, line, &format!("each line of {file}"))?;
            }
        }
        Ok(options)
    }
}

/// Returns the common origin of all `inputs` on a server or, if there are none, of all
/// `outputs`. Several origins are refused, because a token for one server must not
/// reach another.
fn server(inputs: &[Location], outputs: &[Destination]) -> Result<String> {
    let mut origins: Vec<String> = inputs.iter().filter_map(Location::origin).collect();
    if origins.is_empty() {
        origins.extend(outputs.iter().filter_map(Destination::origin));
    }
    origins.sort();
    origins.dedup();
    match &mut origins[..] {
        [origin] => Ok(std::mem::take(origin)),
        [] => Err(Error::Usage(
            "--header requires an input or output on a web server, but none was given".into(),
        )),
        several => Err(Error::Usage(format!(
            "--header applies to one server, but several were given ({}); run zstn once for each",
            several.join(", ")
        ))),
    }
}

/// Adds a header. Error messages do not contain it.
fn add(options: HttpOptions, server: &str, header: &str, what: &str) -> Result<HttpOptions> {
    let (name, value) = header.split_once(':').ok_or_else(|| {
        Error::Usage(format!(
            "{what} has to be a name, a colon and a value, like 'Authorization: Bearer TOKEN'"
        ))
    })?;
    options.header(server, name.trim(), value.trim())
}

fn read(path: &str) -> Result<String> {
    let fail = |error| Error::io(format!("read the headers in {path}"), error);
    let mut text = String::new();
    let file = File::open(path).map_err(fail)?;
    let read = file.take(MAX_HEADERS_BYTES + 1).read_to_string(&mut text);
    if read.map_err(fail)? as u64 > MAX_HEADERS_BYTES {
        return Err(Error::Usage(format!(
            "{path} is too long for a file of headers: {MAX_HEADERS_BYTES} bytes are the most"
        )));
    }
    Ok(text)
}
