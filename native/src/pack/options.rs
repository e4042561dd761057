//! Options for packing.

use zstn_core::container::zstn::{ContainerOptions, OriginalSha256};
use zstn_core::frame::select::Effort;

use crate::shards::Shards;
use crate::source::Input;
use crate::{Error, Job, Result};

/// The smallest memory limit that packing accepts, in bytes.
pub const LEAST_MEMORY_BYTES: u64 = 64 << 20;

/// Options for [`pack`](crate::pack()).
///
/// ```
/// use zstn::{Effort, PackOptions};
///
/// let options = PackOptions::default().effort(Effort::Max).statistics(false);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct PackOptions {
    pub(crate) container: ContainerOptions,
    pub(crate) bases: Vec<Input>,
    /// `Some(true)` packs only files that are not safetensors, `Some(false)` only
    /// safetensors files, and `None` packs both.
    is_other_format: Option<bool>,
}

impl PackOptions {
    /// Sets the trade-off between time and size; the default is [`Effort::Balanced`].
    pub fn effort(mut self, effort: Effort) -> Self {
        self.container.encode.effort = effort;
        self
    }

    /// Sets whether extension frames are written for tensors that they make smaller;
    /// the default is false (docs/formats/extensions.md). zstn 0.1 and later read a
    /// file with such a frame; z4ai and older readers refuse it by its version. If no
    /// tensor gets an extension frame, the file is the same as without this option.
    ///
    /// A writer, a pipe or an upload receives no bytes until the first extension frame
    /// has been found or the packing ends: until then the bytes wait in the folder for
    /// temporary files (`TMPDIR`).
    pub fn extended(mut self, extended: bool) -> Self {
        self.container = self.container.extended(extended);
        self
    }

    /// Sets whether a container gets checksums of all its bytes; the default is true
    /// (docs/formats/zstn-integrity.md). Deltas always have digests.
    pub fn integrity(mut self, integrity: bool) -> Self {
        self.container.has_integrity = integrity;
        self
    }

    /// Sets whether a container gets statistics of its tensors; the default is true.
    /// They consist of extremes, mean, root mean square and counts for every tensor and
    /// for every 256 rows, and describe a model without its weights being read
    /// (docs/formats/zstn-integrity.md 7). They take at most 0.02 % of the size of
    /// usual models. Deltas, and containers without [`PackOptions::integrity`], have no
    /// statistics.
    pub fn statistics(mut self, statistics: bool) -> Self {
        self.container.has_statistics = statistics;
        self
    }

    /// Sets the SHA-256 of the input, a single file, which is then not computed. A model hub lists this digest, and git-lfs names the file by it
    /// ([`parse_sha256`](zstn_core::container::zstn::parse_sha256) parses its digits).
    ///
    /// The digest is not checked while packing. The container records that it was only
    /// claimed, and functions that restore the whole file ([`unpack`](crate::unpack()),
    /// [`verify`](crate::verify())) compare it and fail if it is wrong. A file that
    /// breaks the safetensors rules is packed as one frame that cannot store the
    /// digest, so it is compared immediately. The digest is refused together with a
    /// base, without [`PackOptions::integrity`], and for a sharded checkpoint.
    pub fn sha256(mut self, sha256: [u8; 32]) -> Self {
        self.container.original_sha256 = OriginalSha256::Claimed(sha256);
        self
    }

    /// Sets the SHA-256 of the input, for a container that the caller restores and
    /// compares with it before any other program reads it.
    #[doc(hidden)]
    pub fn checked_sha256(mut self, sha256: [u8; 32]) -> Self {
        self.container.original_sha256 = OriginalSha256::Checked(sha256);
        self
    }

    /// Sets whether a file that ends before its tensors do is packed as one frame. By
    /// default it is refused, because such a file is almost always the result of a
    /// failed download or copy.
    pub fn allow_truncated(mut self, allow: bool) -> Self {
        self.container.allow_truncated = allow;
        self
    }

    /// Packs the delta from `base`, a plain or packed checkpoint. The base of a safetensors file
    /// must be safetensors too; the base of any other file may have any format. If the base is
    /// a delta itself, the next call adds the base's own base, and so on. For a merged model,
    /// the next call adds the next of its sources (docs/formats/zstn-delta.md 9).
    ///
    /// A packed base is restored into the folder for temporary files (`TMPDIR`), which
    /// needs free space for the original, or for a chain of deltas twice as much.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Refuses a single file that is not of another format than safetensors, or for
    /// `false` one that is, before it is packed. The name of a file that is packed under a
    /// fixed name states its format (docs/formats/zstn-virtual-header.md 1).
    #[doc(hidden)]
    pub fn only_other_format(mut self, is_other_format: bool) -> Self {
        self.is_other_format = Some(is_other_format);
        self
    }

    /// Refuses the file called `name` if another format is required.
    pub(super) fn check_format(&self, name: &str, is_other_format: bool) -> Result<()> {
        let detail = match (self.is_other_format, is_other_format) {
            (Some(true), false) => "a safetensors file, although its name states another format",
            (Some(false), true) => "no safetensors file, although its name states that",
            _ => return Ok(()),
        };
        let detail = format!("{name} is {detail}; rename it");
        Err(Error::Usage(detail))
    }

    /// Returns whether files can be packed while they arrive. A file that is cut off can
    /// only be recognised at its end. Several bases may be the sources of a merge, whose
    /// weights are found from samples of the whole file.
    pub(crate) fn can_arrive(&self) -> bool {
        !self.container.allow_truncated && self.bases.len() < 2
    }

    /// Refuses options that exclude each other, and a job without enough memory.
    pub(crate) fn check(&self, job: &Job) -> Result<()> {
        if self.container.original_sha256 != OriginalSha256::Computed {
            let no_place = match (self.container.has_integrity, &self.bases[..]) {
                (true, []) => None,
                (false, _) => Some("a file without checksums cannot store a SHA-256"),
                (true, _) => Some("a delta cannot store a SHA-256"),
            };
            if let Some(detail) = no_place {
                return Err(Error::Usage(format!("{detail}; leave it out")));
            }
        }
        if job.memory() >= LEAST_MEMORY_BYTES {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "packing needs at least {} MiB of memory",
            LEAST_MEMORY_BYTES >> 20
        )))
    }

    /// Refuses options that have no meaning for a checkpoint in several files.
    pub(crate) fn check_several(&self, shards: &Shards) -> Result<()> {
        match self.container.original_sha256 {
            OriginalSha256::Computed => Ok(()),
            _ => Err(Error::Usage(format!(
                "{} is a checkpoint in several files, and a SHA-256 is for a single file; leave \
                 it out, or pack the files one by one",
                shards.location()
            ))),
        }
    }
}
