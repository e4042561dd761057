//! ZSTN version 3 (docs/formats/z4ai-containers.md 2) and version 4
//! (docs/formats/extensions.md 2): the header of a safetensors file, one frame
//! per distinct tensor, and an index at the end.
//!
//! ```text
//! prefix   magic, version, flag, header length, header, data length
//! frames   back to back
//! index    one record per tensor: name, span, frame or alias
//! section  checksums and digests (zstn-integrity.md); optional
//! footer   offset of the index
//! ```

#[doc(hidden)]
pub mod aliases;
mod builder;
mod footer;
mod frame;
mod in_memory;
mod incremental;
mod index;
pub mod integrity;
mod options;
mod original_sha256;
mod prefix;
#[doc(hidden)]
pub mod rows;
mod tail;

pub use builder::{ContainerBuilder, ContainerEnd, Start, StoredFrame, single_frame};
pub use footer::{FOOTER_BYTES, Footer};
pub use frame::CheckedFrame;
pub use in_memory::{pack, pack_into, single_frame_range, unpack, unpack_into};
pub use incremental::{IncrementalPacker, PackedTensor};
pub use index::{Content, Index, Record};
pub use options::{CodedTensor, ContainerOptions};
pub use original_sha256::{OriginalSha256, parse_sha256};
pub use prefix::{Announced, Layout, Prefix, prefix_bytes, promises_header_copy};
pub use tail::Tail;

use crate::frame::Edition;

/// The first and the last bytes of the file.
pub const MAGIC: [u8; 4] = *b"ZSTN";
/// The version number of each edition.
const VERSIONS: [u8; 2] = [3, 4];

/// Returns the version of a file of this `edition`.
#[must_use]
pub fn version(edition: Edition) -> u8 {
    edition.number(VERSIONS)
}

/// The length of the prefix without the header, in bytes.
pub(crate) const PREFIX_FIXED_BYTES: u64 = 22;
