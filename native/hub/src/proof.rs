//! Proves that a packed file restores its original.
//!
//! An original is only removed, and work on it is only reported as done, after the
//! packed bytes have been decoded in full and the SHA-256 of the result equals the
//! digest that the owner of the original lists. A digest that the packed file itself
//! records proves nothing: the writer of the file also wrote the digest. `hf zstn push`
//! calls [`check_restores`] through the Python package. The worker, jobs and git-lfs
//! call the functions here that compute the SHA-256 of the restored bytes, and compare
//! it themselves. Objects behind a git-lfs server cannot be read back: the server has
//! to check them.

use sha2::{Digest, Sha256};

use zstn::internals::{Output, Staging};
use zstn::source::{HttpOptions, Input};
use zstn::{Engine, Error, Job, Location, Progress, Result, UnpackOptions};

/// The number of bytes that are read at a time.
const PIECE_BYTES: u64 = 8 << 20;

/// The location of a packed file, with the options for reading it.
#[derive(Debug, Clone)]
#[must_use]
pub struct StoredFile {
    location: Location,
    sha256: Option<String>,
    bases: Vec<Location>,
    http: HttpOptions,
    memory_bytes: Option<u64>,
}

impl StoredFile {
    /// Refers to a packed file at `location`.
    pub fn new(location: impl Into<Location>) -> Self {
        Self {
            location: location.into(),
            sha256: None,
            bases: Vec::new(),
            http: HttpOptions::default(),
            memory_bytes: None,
        }
    }

    /// Sets the SHA-256, in lower-case hex, that the store lists for the packed bytes.
    /// Bytes with another digest are refused.
    pub fn sha256(mut self, sha256: impl Into<String>) -> Self {
        self.sha256 = Some(sha256.into());
        self
    }

    /// Adds a base of a delta. If the base is a delta itself, the next call adds the
    /// base's own base, and so on.
    pub fn base(mut self, base: impl Into<Location>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Sets time limits, retries and headers for requests to addresses.
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = http;
        self
    }

    /// Sets the approximate limit for memory, in bytes.
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = Some(memory_bytes);
        self
    }
}

/// Checks that a stored file restores the original with this SHA-256 (in lower-case
/// hex). The original may be removed if this returns `Ok`, and must be kept otherwise.
///
/// All packed bytes are read from the store and decoded. Bytes that are not in a local
/// file are first copied into the folder for temporary files.
///
/// # Errors
/// The reason why the original must be kept: [`Error::Differs`] for packed bytes whose
/// SHA-256 is not the one that the store lists, and for restored bytes whose SHA-256 is
/// not that of the original; every error of [`unpack`](zstn::unpack()); a store that
/// cannot be read.
pub fn check_restores(
    engine: &Engine,
    stored: &StoredFile,
    original_sha256: &str,
    progress: &dyn Progress,
) -> Result<()> {
    let found = restored_sha256(engine, stored, progress)?;
    if found == original_sha256 {
        return Ok(());
    }
    Err(Error::Differs {
        detail: format!(
            "{} restores other bytes: their SHA-256 is {found}, and that of the original is \
             {original_sha256}",
            stored.location
        ),
    })
}

/// Returns the SHA-256 of the file that a stored file restores, in lower-case hex. All
/// packed bytes are read and decoded.
///
/// # Errors
/// The errors of [`check_restores`], except the one for other restored bytes.
pub fn restored_sha256(
    engine: &Engine,
    stored: &StoredFile,
    progress: &dyn Progress,
) -> Result<String> {
    let copies = Staging::temporary()?;
    let mut job = Job::new()
        .engine(engine)
        .http(stored.http.clone())
        .progress(progress);
    if let Some(bytes) = stored.memory_bytes {
        job = job.memory_bytes(bytes);
    }
    let mut options = UnpackOptions::default();
    for base in &stored.bases {
        options = options.base(base);
    }
    let input: Location = match &stored.location {
        Location::Path(path) if stored.sha256.is_none() => path.into(),
        location => {
            let path = copies.path("packed");
            let (_, found) = copy(location, &stored.http, &path)?;
            match &stored.sha256 {
                Some(listed) if *listed != found => {
                    return Err(Error::Differs {
                        detail: format!(
                            "{location} is damaged: its bytes have the SHA-256 {found}, and \
                             {listed} is listed for it"
                        ),
                    });
                }
                _ => path.into(),
            }
        }
    };
    restored(&job, input, &options).map_err(|error| at(error, &input_name(&copies), stored))
}

/// Returns the SHA-256 of the file that `input` restores, in lower-case hex. It is computed
/// from the decoded bytes, which are not stored.
pub(crate) fn restored(
    job: &Job,
    input: impl Into<Input>,
    options: &UnpackOptions,
) -> Result<String> {
    zstn::internals::restored_sha256(job, input, options).map(|sha256| hex(&sha256))
}

/// Copies all bytes of `location` into a new file at `path`. Returns the number of
/// bytes and their SHA-256 in lower-case hex.
pub(crate) fn copy(
    location: &Location,
    http: &HttpOptions,
    path: &std::path::Path,
) -> Result<(u64, String)> {
    let mut output = Output::create_new(path)?;
    let copied = stream(location, http, |bytes| output.write(bytes))?;
    output.finish()?;
    Ok(copied)
}

/// Passes the bytes of `location` to `each` in order. Returns the number of bytes and
/// their SHA-256 in lower-case hex.
pub(crate) fn stream(
    location: &Location,
    http: &HttpOptions,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<(u64, String)> {
    let source = location.open(http)?;
    let len_bytes = source.len_bytes();
    let mut sum = Sha256::new();
    let mut start = 0;
    while start < len_bytes {
        let end = len_bytes.min(start + PIECE_BYTES);
        let piece = source.read(start..end)?;
        sum.update(&piece);
        each(&piece)?;
        start = end;
    }
    source.check_unchanged()?;
    Ok((len_bytes, hex(&sum.finalize())))
}

fn input_name(copies: &Staging) -> String {
    copies.path("packed").display().to_string()
}

/// Replaces the name of the temporary copy in an error with the name of the store's
/// file.
fn at(error: Error, copy: &str, stored: &StoredFile) -> Error {
    match error {
        Error::Format { place, source } if place == copy => Error::Format {
            place: stored.location.to_string(),
            source,
        },
        error => error,
    }
}

/// Formats bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
