//! Options and results of uploads.

use std::env;
use std::path::PathBuf;

use crate::StoreOptions;

const MIB: u64 = 1 << 20;
/// The minimum length that S3 accepts for any part but the last.
const MIN_PART_BYTES: u64 = 5 * MIB;
/// Longer than the minimum, for fewer requests; a default upload buffers at most 80
/// MiB.
const DEFAULT_PART_BYTES: u64 = 16 * MIB;
/// Maximum number of parts. S3 permits 10,000; the last number is reserved for asking
/// the store whether an upload exists.
pub(crate) const MAX_PARTS: usize = 9_999;
/// The number of parts to plan for, which leaves a margin for inexact estimates.
const PLANNED_PARTS: u64 = 9_000;

/// Options for [`Upload::begin`](super::Upload::begin).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UploadOptions {
    /// If true, an existing object with this name is replaced. False by default.
    pub replace: bool,
    /// The maximum length of the object in bytes, if known. For objects over 140 GiB,
    /// it makes the parts longer; if it is unknown, objects are limited to 156 GiB.
    pub expected_bytes: Option<u64>,
    /// Length of a part in bytes, at least 5 MiB. An object of at most this length is
    /// sent in one request. 16 MiB by default.
    pub part_bytes: u64,
    /// Maximum number of parts that are sent at the same time. One more part is
    /// buffered. 4 by default.
    pub parts_at_once: usize,
    /// Folder of the journal that lets a later run continue, such as
    /// [`default_journal_folder`]. None by default; an upload without a journal is
    /// discarded when dropped.
    pub journal_folder: Option<PathBuf>,
    /// If true, the upload continues without a journal if the journal folder cannot be
    /// written or locked. False by default, which makes that an error.
    pub journal_is_optional: bool,
    /// Credentials, time limits and retries.
    pub store: StoreOptions,
}

impl UploadOptions {
    /// Returns the length of parts in bytes: `part_bytes`, or more if the object would
    /// otherwise have too many parts.
    pub(crate) fn usable_part_bytes(&self) -> u64 {
        self.part_bytes.max(self.min_part_bytes())
    }

    /// Returns the smallest part length with which the object does not have too many parts.
    pub(crate) fn min_part_bytes(&self) -> u64 {
        let expected = self.expected_bytes.unwrap_or(0).div_ceil(PLANNED_PARTS);
        expected.max(MIN_PART_BYTES).next_multiple_of(MIB)
    }
}

impl Default for UploadOptions {
    fn default() -> Self {
        Self {
            replace: false,
            expected_bytes: None,
            part_bytes: DEFAULT_PART_BYTES,
            parts_at_once: 4,
            journal_folder: None,
            journal_is_optional: false,
            store: StoreOptions::default(),
        }
    }
}

/// The result of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UploadReport {
    /// Length of the object in bytes.
    pub len_bytes: u64,
    /// Number of bytes sent, without retried requests.
    pub sent_bytes: u64,
    /// Number of parts; 0 if the object was sent in one request.
    pub parts: u64,
    /// Number of parts that an earlier run had sent.
    pub parts_reused: u64,
    /// True if a journal was requested but could not be written, as
    /// [`UploadOptions::journal_is_optional`] permits.
    pub is_without_journal: bool,
}

/// Returns the folder for the journals of this user's uploads: `zstn/uploads` in the
/// system's folder for application state. `None` if no environment variable names that
/// folder.
#[must_use]
pub fn default_journal_folder() -> Option<PathBuf> {
    let folder = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        folder("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")))
    };
    state.map(|state| state.join("zstn").join("uploads"))
}
