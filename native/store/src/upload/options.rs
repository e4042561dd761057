//! Options and results of uploads.

use std::env;
use std::path::PathBuf;

use crate::StoreOptions;

const MIB: u64 = 1 << 20;
/// Below this, S3 refuses a part that is not the last.
const MIN_PART_BYTES: u64 = 5 * MIB;
/// Fewer requests than with the minimum, and still 80 MiB of memory at most.
const DEFAULT_PART_BYTES: u64 = 16 * MIB;
/// S3 permits 10 000. The last number is left for a question to the store.
pub(crate) const MAX_PARTS: usize = 9_999;
/// The number of parts to plan with, so that estimates need not be exact.
const PLANNED_PARTS: u64 = 9_000;

/// Options for [`Upload::begin`](super::Upload::begin).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UploadOptions {
    /// If true, an object of that name is replaced. False by default.
    pub replace: bool,
    /// The greatest length that the object can have, in bytes, if it is known.
    /// Parts are larger for objects over 140 GiB; without it, 156 GiB is the end.
    pub expected_bytes: Option<u64>,
    /// The length of parts in bytes, at least 5 MiB. An object of at most this
    /// length is sent in one request. 16 MiB by default.
    pub part_bytes: u64,
    /// How many parts are sent at the same time. 4 by default. One more part is
    /// held in memory.
    pub parts_at_once: usize,
    /// Where the journal is kept that lets a later run continue, such as
    /// [`default_journal_folder`]. Without it, which is the default, an upload
    /// that is dropped is discarded.
    pub journal_folder: Option<PathBuf>,
    /// If true, the upload goes on without a journal where the folder for journals
    /// cannot be written or locked. False by default: that is an error.
    pub journal_is_optional: bool,
    /// Credentials, time limits and retries.
    pub store: StoreOptions,
}

impl UploadOptions {
    /// Returns the length of parts in bytes: `part_bytes`, or more where the
    /// object would have too many of them.
    pub(crate) fn usable_part_bytes(&self) -> u64 {
        self.part_bytes.max(self.min_part_bytes())
    }

    /// The shortest parts that the object can have.
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

/// What an upload did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UploadReport {
    /// Length of the object in bytes.
    pub len_bytes: u64,
    /// Bytes that were sent, those of requests made again not counted.
    pub sent_bytes: u64,
    /// Parts of the object; 0 if it was sent whole.
    pub parts: u64,
    /// Parts that an earlier run had sent.
    pub parts_reused: u64,
    /// True if there was to be a journal and none could be kept, which
    /// [`UploadOptions::journal_is_optional`] permits.
    pub is_without_journal: bool,
}

/// Returns the folder for journals of uploads by this user: `zstn/uploads` in the
/// folder where the system keeps the state of programs. `None` if no variable
/// says where that is.
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
