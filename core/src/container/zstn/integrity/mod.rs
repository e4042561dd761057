//! The integrity section of a ZSTN file, which makes damage detectable
//! (docs/formats/zstn-integrity.md). It is optional. z4ai ignores it, as it
//! does all bytes between the index and the footer.

mod checksum_builder;
mod contents;
mod section;
mod statistics;
mod verify;

pub use crate::checksum::checksum;
pub use checksum_builder::{ChecksumBuilder, FrameDigests};
pub use contents::{StatisticsCheck, check_table};
pub(crate) use section::Section;
pub(super) use section::{FileDigest, Head};
#[doc(hidden)]
pub use statistics::bands_checksum;
pub(super) use statistics::write_entry;
pub use statistics::{EncodedStatistics, StoredStatistics};
pub use verify::{FileCheck, Integrity, Verify};

/// The length of a section without the entries of its tensors, in bytes.
pub const FIXED_BYTES: u64 = 142;
