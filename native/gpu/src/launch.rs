//! The parameters of launches that depend on a plan, and the report of damage.

use zstn_core::frame::plan::{Coding, DevicePlan, HostSegment, NONE, Space};

use crate::{Jobs, MAX_TILE_ELEMENTS};

/// The length of the kernels' `StreamShared`, which contains the first word of a stream.
const STREAM_SHARED_BYTES: u32 = 43_404;
/// Number of words of padding around a stream.
const PAD_WORDS: u32 = 4;
/// The largest number of bits of a symbol. Kernels refuse a stream that has more bits
/// for its symbols before they copy it to shared memory.
const MAX_SYMBOL_BITS: u64 = 11;

/// Returns the shared memory in bytes that a block needs to decode any stream of a plan,
/// at most 88,500.
#[must_use]
pub fn stream_shared_bytes(plan: &DevicePlan) -> u32 {
    let is_huffman = |coding| coding == Coding::Huffman as u32;
    let streams = plan.segments().iter().filter(|s| is_huffman(s.coding));
    let longest = streams.map(|segment| {
        let symbols = u64::from(segment.len.min(MAX_TILE_ELEMENTS));
        let longest = (symbols * MAX_SYMBOL_BITS) / 8 + 1;
        u32::try_from(longest).map_or(segment.source_len, |most| segment.source_len.min(most))
    });
    let longest = longest.max().unwrap_or(0);
    // A stream may begin with any byte of a word.
    STREAM_SHARED_BYTES + 4 * (PAD_WORDS + (longest + 6) / 4)
}

/// The length of the kernels' `DifferenceShared`, which contains one table.
const DIFFERENCE_SHARED_BYTES: u32 = 5_024;
/// The length of the kernels' `ExpandedDifference`.
const EXPANDED_TABLE_BYTES: u32 = 4_440;

/// Returns the shared memory in bytes that a block needs to decode blocks of any difference
/// of a plan, at most 71,624.
#[must_use]
pub fn difference_shared_bytes(plan: &DevicePlan) -> u32 {
    let tables = plan.differences().iter().map(|tensor| tensor.tables);
    let more = tables.max().unwrap_or(1).saturating_sub(1);
    DIFFERENCE_SHARED_BYTES + more * EXPANDED_TABLE_BYTES
}

/// A damaged record of a plan, the first one that kernels found of its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The segment with this index does not end with its last symbol.
    Segment(u32),
    /// The tensor with this index has a field with more bits than its width, an index
    /// outside of its palette, a symbol without a value, or a bitmap with another number of
    /// bits than it has values.
    Tensor(u32),
    /// The block of a difference with this index does not end with its last element.
    Block(u32),
    /// The digest with this index does not match its bytes.
    Digest(u32),
}

impl Damage {
    /// Returns the damage that the kernels have reported: the lowest index of a damaged
    /// segment, tensor and block, and of a digest that does not match its bytes. Planes of a
    /// damaged segment have no defined content, so segments come first; digests come last.
    #[must_use]
    pub fn of_report([segment, tensor, block, digest]: [u32; 4]) -> Option<Self> {
        let found = [
            (segment, Self::Segment(segment)),
            (tensor, Self::Tensor(tensor)),
            (block, Self::Block(block)),
            (digest, Self::Digest(digest)),
        ];
        let mut found = found.into_iter();
        found.find_map(|(index, damage)| (index != NONE).then_some(damage))
    }
}

/// Returns the buffer of a segment that the host decodes, and its offset there in bytes;
/// `None` if the segment is of another plan than `jobs`.
#[must_use]
pub fn host_place(plan: &DevicePlan, jobs: &Jobs, host: &HostSegment) -> Option<(Space, u64)> {
    let segment = plan.segments().get(host.segment as usize)?;
    let plane = jobs.planes.get(segment.plane as usize)?;
    let space = match plane.space == Space::Output as u32 {
        true => Space::Output,
        false => Space::Scratch,
    };
    Some((space, plane.at + segment.position))
}
