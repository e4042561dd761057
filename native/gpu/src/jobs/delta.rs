//! Jobs of the records of deltas: blocks of differences, bytes that are XORed with the
//! base's, and digests.

use zerocopy::{Immutable, IntoBytes, KnownLayout};
use zstn_core::frame::plan::{DevicePlan, DifferenceBlock, PlannedDigest};

use super::{Jobs, PLANE_ALIGN};

/// Consecutive blocks of one difference. A block of threads decodes them together, with a
/// warp for each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DifferenceBlocks {
    /// Index of the first block.
    pub first: u32,
    /// Number of blocks, 1 to 8.
    pub count: u32,
}

/// Bytes of the output that one block of threads hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DigestTile {
    /// Offset of the first byte in the bytes that have the digest.
    pub first: u64,
    /// Offset in the scratch buffer of the place for 32 bytes, the chaining value of the
    /// tile.
    pub value: u64,
    /// Number of bytes, at most 2^18.
    pub len: u32,
    /// Index of the digest.
    pub digest: u32,
}

/// A digest. One block of threads combines the chaining values of its tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DigestSum {
    /// Offset in the scratch buffer of the value of the first tile. The values of the other
    /// tiles follow, and then as much memory again.
    pub values: u64,
    /// Number of tiles.
    pub tiles: u32,
    /// Index of the digest.
    pub digest: u32,
}

/// Bytes of the base that one block of threads copies from the output to the scratch buffer.
/// Another block XORs the decoded bytes with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct XorTile {
    /// Offset of the first byte in the output.
    pub output: u64,
    /// Offset of the copy in the scratch buffer.
    pub base: u64,
    /// Number of bytes, at most 2^18.
    pub len: u32,
    /// Always 0.
    pub reserved: u32,
}

/// The largest number of blocks of a difference that a block of threads decodes.
const MAX_DIFFERENCE_BLOCKS: u32 = 8;
/// The largest number of bytes of a tile, a whole subtree of BLAKE3.
const TILE_BYTES: u32 = 1 << 18;
/// The length of a chaining value.
const VALUE_BYTES: u64 = 32;

impl Jobs {
    /// Adds the jobs of all records of deltas.
    pub(super) fn add_records(&mut self, plan: &DevicePlan) {
        let mut blocks = (0..).zip(plan.difference_blocks()).peekable();
        while let Some((first, block)) = blocks.next() {
            let mut count = 1;
            let is_same = |(_, next): &(u32, &DifferenceBlock)| next.difference == block.difference;
            while count < MAX_DIFFERENCE_BLOCKS && blocks.next_if(is_same).is_some() {
                count += 1;
            }
            self.differences.push(DifferenceBlocks { first, count });
        }
        for xor in plan.xors() {
            let base = self.reserve(xor.len);
            self.xors.extend(tiles(xor.len).map(|(at, len)| XorTile {
                output: xor.output + at,
                base: base + at,
                len,
                reserved: 0,
            }));
        }
        for (number, digest) in (0..).zip(plan.digests()) {
            self.add_digest(number, digest);
        }
    }

    fn add_digest(&mut self, number: u32, digest: &PlannedDigest) {
        let count = digest.len.div_ceil(TILE_BYTES.into()).max(1);
        let values = self.reserve(2 * VALUE_BYTES * count);
        self.digest_sums.push(DigestSum {
            values,
            // The bytes are in memory of a device, which is shorter than 2^50 bytes.
            tiles: u32::try_from(count).unwrap_or(u32::MAX),
            digest: number,
        });
        // No bytes are one tile.
        let empty = (digest.len == 0).then_some((0, 0));
        let tiles = (0u64..).zip(tiles(digest.len).chain(empty));
        self.digests
            .extend(tiles.map(|(tile, (first, len))| DigestTile {
                first,
                value: values + VALUE_BYTES * tile,
                len,
                digest: number,
            }));
    }

    /// Reserves memory in the scratch buffer, and returns its offset. If the buffer would have
    /// over 2^64 bytes, its length is the largest number, which no device allocates.
    fn reserve(&mut self, len_bytes: u64) -> u64 {
        let at = self.scratch_len_bytes;
        let reserved = len_bytes.checked_next_multiple_of(PLANE_ALIGN);
        self.scratch_len_bytes = at.saturating_add(reserved.unwrap_or(u64::MAX));
        at
    }
}

/// Divides `len_bytes` bytes into tiles: the offset and the length of each.
fn tiles(len_bytes: u64) -> impl Iterator<Item = (u64, u32)> {
    let starts = (0..len_bytes).step_by(TILE_BYTES as usize);
    starts.map(move |at| {
        let left = u32::try_from(len_bytes - at).unwrap_or(u32::MAX);
        (at, left.min(TILE_BYTES))
    })
}
