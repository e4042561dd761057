//! Options for packing.

use zstn_core::container::zstn::OriginalSha256;
use zstn_core::frame::select::{Effort, EncodeOptions};

use crate::source::{HttpOptions, Input};
use crate::{Error, Progress, Result};

/// Least memory the packer can be held to, in bytes: a few blocks per thread.
pub const LEAST_MEMORY_BYTES: u64 = 64 << 20;

/// Options for [`pack`](crate::pack()).
///
/// ```
/// use zstn::{Effort, PackOptions};
///
/// let options = PackOptions::default().effort(Effort::Max).memory_bytes(512 << 20);
/// ```
#[derive(Clone)]
#[must_use]
pub struct PackOptions<'a> {
    pub(crate) effort: Effort,
    pub(crate) extended: bool,
    pub(crate) memory_bytes: u64,
    pub(crate) integrity: bool,
    pub(crate) statistics: bool,
    pub(crate) original_sha256: OriginalSha256,
    pub(crate) allow_truncated: bool,
    pub(crate) bases: Vec<Input>,
    pub(crate) http: HttpOptions,
    pub(crate) progress: &'a dyn Progress,
}

impl Default for PackOptions<'_> {
    fn default() -> Self {
        Self {
            effort: Effort::default(),
            extended: false,
            memory_bytes: 1 << 30,
            integrity: true,
            statistics: true,
            original_sha256: OriginalSha256::Computed,
            allow_truncated: false,
            bases: Vec::new(),
            http: HttpOptions::default(),
            progress: &(),
        }
    }
}

impl<'a> PackOptions<'a> {
    /// Sets the trade-off of time against size, by default
    /// [`Effort::Balanced`].
    pub fn effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// Sets whether extension frames are written for tensors that they make smaller,
    /// by default they are not (docs/formats/extensions.md). A file with one is read by zstn 0.1
    /// and later; z4ai and older readers refuse it by its version. Without one, the
    /// file is the same as without this option.
    ///
    /// A writer, a pipe or an upload gets no bytes before the first extension frame has been
    /// found, or the end: until then they wait in the folder for temporary
    /// files (`TMPDIR`).
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self
    }

    pub(crate) fn encode(&self) -> EncodeOptions {
        EncodeOptions::new(self.effort).extended(self.extended)
    }

    /// Sets the memory to stay within, roughly, in bytes: by default 1 GiB, at
    /// least 64 MiB. Less is taken where less keeps all threads busy. It never
    /// changes the output.
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets whether a container gets checksums of all its bytes, by default it
    /// does (docs/formats/zstn-integrity.md). Deltas always have digests.
    pub fn integrity(mut self, integrity: bool) -> Self {
        self.integrity = integrity;
        self
    }

    /// Sets whether a container gets statistics of its tensors, by default it does:
    /// extremes, mean, root mean square and counts for every tensor and every 256
    /// rows, which show a model without reading its weights
    /// (docs/formats/zstn-integrity.md 7). They take at most 0.02 % of usual
    /// models. A container without [`PackOptions::integrity`] has none, and so
    /// have deltas.
    pub fn statistics(mut self, statistics: bool) -> Self {
        self.statistics = statistics;
        self
    }

    /// Gives the SHA-256 of the input, one safetensors file, which is then not
    /// computed: a model hub lists it, and git-lfs names the file by it
    /// ([`parse_sha256`](zstn_core::container::zstn::parse_sha256) reads its digits).
    ///
    /// It is taken on trust. The container says so, and whatever restores the whole
    /// file ([`unpack`](crate::unpack()), [`verify`](crate::verify())) compares it:
    /// if it is wrong, that fails. A file that breaks the safetensors rules is packed
    /// as one frame, without a place for it, and is compared at once. Refused with a
    /// base, without [`PackOptions::integrity`], and for a checkpoint in several files.
    pub fn sha256(mut self, sha256: [u8; 32]) -> Self {
        self.original_sha256 = OriginalSha256::Claimed(sha256);
        self
    }

    /// Gives the SHA-256 of the input to a container that the caller restores and
    /// compares with it before anybody else reads it.
    #[doc(hidden)]
    pub fn checked_sha256(mut self, sha256: [u8; 32]) -> Self {
        self.original_sha256 = OriginalSha256::Checked(sha256);
        self
    }

    /// Sets whether a file that ends before its tensors do is packed as one
    /// frame. By default it is refused: almost always such a file is a download
    /// or a copy that failed.
    pub fn allow_truncated(mut self, allow: bool) -> Self {
        self.allow_truncated = allow;
        self
    }

    /// Packs the difference from `base`, a plain or packed checkpoint. Where
    /// the base is a delta, the next call adds the base of that one, and so on.
    ///
    /// A packed base is restored into the folder for temporary files
    /// (`TMPDIR`), which needs as much free space as the original takes; for a
    /// chain of deltas, twice as much.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Sets time limits, retries and headers for the addresses that are read: of
    /// the input, of its bases and of their other files.
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = http;
        self
    }

    /// Sets what watches the work.
    pub fn progress<'b>(self, progress: &'b dyn Progress) -> PackOptions<'b>
    where
        'a: 'b,
    {
        PackOptions { progress, ..self }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.original_sha256 != OriginalSha256::Computed {
            let no_place = match (self.integrity, &self.bases[..]) {
                (true, []) => None,
                (false, _) => Some("a container without checksums has no place for a SHA-256"),
                (true, _) => Some("a difference from a base has no place for a SHA-256"),
            };
            if let Some(detail) = no_place {
                return Err(Error::Usage(format!("{detail}; leave it out")));
            }
        }
        if self.memory_bytes >= LEAST_MEMORY_BYTES {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "packing needs at least {} MiB of memory",
            LEAST_MEMORY_BYTES >> 20
        )))
    }
}
