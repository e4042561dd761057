//! Divides the work on a plan into blocks of threads.

use zerocopy::{Immutable, IntoBytes, KnownLayout};
use zstn_core::frame::plan::{
    Coding, DevicePlan, Join, JoinedTensor, NONE, PlannedPlane, Segment, Space,
};

mod delta;
mod sparse;

pub use delta::{DifferenceBlocks, DigestSum, DigestTile, XorTile};
pub use sparse::{SparseSum, SparseTile};

/// The largest number of elements of a tile. It is the largest number of symbols of a
/// Huffman-coded stream.
pub const MAX_TILE_ELEMENTS: u32 = 1 << 15;

/// The bit of [`Tile::signs`] that is set if the signs are in the scratch buffer.
pub const IN_SCRATCH: u64 = 1 << 63;

/// Consecutive elements of a tensor that one block of threads joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Tile {
    /// The first element.
    pub first: u64,
    /// Offset of the signs of the whole tensor: in the source, or in the scratch buffer
    /// if [`IN_SCRATCH`] is set. 0 for tensors other than bfloat16.
    pub signs: u64,
    /// Number of elements, at most [`MAX_TILE_ELEMENTS`].
    pub count: u32,
    /// Index of the tensor.
    pub tensor: u32,
    /// Index of the Huffman-coded segment that holds exactly the exponents of these
    /// elements, or [`NONE`] if they are in the scratch buffer.
    pub exponents: u32,
    /// Index of the segment that holds the mantissa of the first element; [`NONE`] for
    /// tensors other than bfloat16.
    pub mantissas: u32,
}

/// Consecutive segments with the same rANS table. A block decodes them together, with one
/// thread for each segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RansChunks {
    /// Index of the first segment.
    pub first: u32,
    /// Number of segments, 1 to 8.
    pub count: u32,
}

/// The largest number of rANS chunks of a block. Blocks of more chunks would leave
/// processors without work where a model has few chunks; smaller blocks expand the same
/// table more often.
const MAX_RANS_CHUNKS: u32 = 8;

/// The alignment of planes in the scratch buffer, in bytes.
const PLANE_ALIGN: u64 = 256;

/// The jobs of all kernels, for one plan.
#[derive(Debug, Clone, Default)]
pub struct Jobs {
    /// The planes of the plan, with their places in a shorter scratch buffer. Planes of
    /// bfloat16 that tiles read directly from the source have no place in it.
    pub planes: Vec<PlannedPlane>,
    /// The length of this scratch buffer in bytes.
    pub scratch_len_bytes: u64,
    /// Indices of the Huffman-coded segments that `segments.cu` decodes.
    pub segments: Vec<u32>,
    /// Indices of the segments that `segments.cu` copies: stored bytes, runs and flat
    /// codes.
    pub copies: Vec<u32>,
    /// The segments that `rans.cu` decodes.
    pub rans: Vec<RansChunks>,
    /// Tiles of bfloat16 tensors.
    pub bfloat16: Vec<Tile>,
    /// Tiles of all other tensors whose planes have to be joined, except for lattices and
    /// sparse tensors.
    pub joins: Vec<Tile>,
    /// Tiles of lattices.
    pub lattices: Vec<Tile>,
    /// Tiles of sparse tensors.
    pub sparse: Vec<SparseTile>,
    /// The sparse tensors.
    pub sparse_sums: Vec<SparseSum>,
    /// The blocks of differences.
    pub differences: Vec<DifferenceBlocks>,
    /// Ranges of the output that are XORed with the base's tensor.
    pub xors: Vec<XorTile>,
    /// Tiles of the bytes that have a digest.
    pub digests: Vec<DigestTile>,
    /// The digests.
    pub digest_sums: Vec<DigestSum>,
}

impl Jobs {
    /// Divides the work on `plan`.
    #[must_use]
    pub fn new(plan: &DevicePlan) -> Self {
        let mut jobs = Self::default();
        jobs.place_planes(plan);
        for plane in plan.planes() {
            if !is_of_bfloat16(plan, plane) {
                for (number, segment) in segments_of(plan, plane) {
                    jobs.add_segment(plan, number, segment);
                }
            }
        }
        for (number, tensor) in (0..).zip(plan.tensors()) {
            if tensor.join == Join::Bfloat16 as u32 {
                jobs.add_bfloat16(plan, number, tensor);
                continue;
            }
            if tensor.join == Join::Sparse as u32 {
                jobs.add_sparse(number, tensor);
                continue;
            }
            let tile = Tile {
                first: 0,
                signs: 0,
                count: 0,
                tensor: number,
                exponents: NONE,
                mantissas: NONE,
            };
            let list = match tensor.join == Join::Lattice as u32 {
                true => &mut jobs.lattices,
                false => &mut jobs.joins,
            };
            list.extend(tiles(tile, tensor.elements));
        }
        jobs.add_records(plan);
        jobs
    }

    /// Reserves the scratch buffer for all planes that kernels or the host write.
    fn place_planes(&mut self, plan: &DevicePlan) {
        for plane in plan.planes() {
            let mut placed = *plane;
            if plane.space == Space::Scratch as u32 {
                placed.at = self.scratch_len_bytes;
                if !is_read_directly(plan, plane) {
                    // The plan has added up the same lengths without an overflow.
                    self.scratch_len_bytes += plane.len.next_multiple_of(PLANE_ALIGN);
                }
            }
            self.planes.push(placed);
        }
    }

    /// Adds a segment that is decoded into its plane.
    fn add_segment(&mut self, plan: &DevicePlan, number: u32, segment: &Segment) {
        if segment.coding == Coding::Rans as u32 {
            self.add_rans(plan, number, segment);
        } else if segment.coding == Coding::Huffman as u32 {
            self.segments.push(number);
        } else if segment.coding != Coding::Host as u32 {
            self.copies.push(number);
        }
    }

    /// Adds a rANS segment to the last block if it follows its segments and has their
    /// table, and to a new block otherwise.
    fn add_rans(&mut self, plan: &DevicePlan, number: u32, segment: &Segment) {
        let is_next = |chunks: &RansChunks| {
            let first = plan.segments().get(chunks.first as usize);
            chunks.first + chunks.count == number
                && chunks.count < MAX_RANS_CHUNKS
                && first.is_some_and(|first| first.parameter == segment.parameter)
        };
        match self.rans.last_mut().filter(|chunks| is_next(chunks)) {
            Some(chunks) => chunks.count += 1,
            None => self.rans.push(RansChunks {
                first: number,
                count: 1,
            }),
        }
    }

    /// Adds the tiles of a bfloat16 tensor, and the segments that are not read by tiles.
    fn add_bfloat16(&mut self, plan: &DevicePlan, number: u32, tensor: &JoinedTensor) {
        let first = tensor.first_plane as usize;
        let Some(&[signs, exponents, mantissas]) = self.planes[first..].first_chunk() else {
            return;
        };
        let signs_at = if let Some(at) = stored_at(plan, &signs) {
            at
        } else {
            for (number, segment) in segments_of(plan, &signs) {
                self.add_segment(plan, number, segment);
            }
            signs.at | IN_SCRATCH
        };
        for (number, segment) in segments_of(plan, &mantissas) {
            if !is_direct_mantissa(segment) {
                self.add_segment(plan, number, segment);
            }
        }
        let mut mantissas = segments_of(plan, &mantissas).peekable();
        for (exponents_number, segment) in segments_of(plan, &exponents) {
            let is_huffman = segment.coding == Coding::Huffman as u32;
            if !is_huffman {
                self.add_segment(plan, exponents_number, segment);
            }
            let run = Tile {
                first: segment.position,
                signs: signs_at,
                count: 0,
                tensor: number,
                exponents: if is_huffman { exponents_number } else { NONE },
                mantissas: NONE,
            };
            for tile in tiles(run, segment.len.into()) {
                let is_before =
                    |segment: &Segment| segment.position + u64::from(segment.len) <= tile.first;
                while mantissas
                    .next_if(|(_, segment)| is_before(segment))
                    .is_some()
                {}
                let mantissas = mantissas.peek().map_or(NONE, |(number, _)| *number);
                self.bfloat16.push(Tile { mantissas, ..tile });
            }
        }
    }
}

fn tensor_of<'p>(plan: &'p DevicePlan, plane: &PlannedPlane) -> Option<&'p JoinedTensor> {
    plan.tensors().get(plane.tensor as usize)
}

fn is_of_bfloat16(plan: &DevicePlan, plane: &PlannedPlane) -> bool {
    tensor_of(plan, plane).is_some_and(|tensor| tensor.join == Join::Bfloat16 as u32)
}

/// Returns whether the tiles of a bfloat16 tensor read all segments of one of its planes
/// from the source.
fn is_read_directly(plan: &DevicePlan, plane: &PlannedPlane) -> bool {
    let Some(tensor) = tensor_of(plan, plane).filter(|_| is_of_bfloat16(plan, plane)) else {
        return false;
    };
    let planes = plan.planes().get(tensor.first_plane as usize..);
    let Some([signs, exponents, _]) = planes.and_then(<[_]>::first_chunk) else {
        return false;
    };
    let mut segments = segments_of(plan, plane).map(|(_, segment)| segment);
    if plane == signs {
        stored_at(plan, plane).is_some()
    } else if plane == exponents {
        segments.all(|segment| segment.coding == Coding::Huffman as u32)
    } else {
        segments.all(is_direct_mantissa)
    }
}

fn is_direct_mantissa(segment: &Segment) -> bool {
    let is_flat = segment.coding == Coding::Flat as u32 && segment.parameter == 7;
    segment.coding == Coding::Stored as u32 || is_flat
}

fn segments_of<'p>(
    plan: &'p DevicePlan,
    plane: &PlannedPlane,
) -> impl Iterator<Item = (u32, &'p Segment)> + use<'p> {
    let first = plane.first_segment as usize;
    let segments = &plan.segments()[first..][..plane.segments as usize];
    (plane.first_segment..).zip(segments)
}

/// Returns the offset in the source of a plane that is stored there as a whole.
fn stored_at(plan: &DevicePlan, plane: &PlannedPlane) -> Option<u64> {
    debug_assert_eq!(plane.space, Space::Scratch as u32);
    let (_, first) = segments_of(plan, plane).next()?;
    let is_next = |segment: &Segment| {
        segment.coding == Coding::Stored as u32 && segment.source == first.source + segment.position
    };
    let mut segments = segments_of(plan, plane);
    segments
        .all(|(_, segment)| is_next(segment))
        .then_some(first.source)
}

/// Divides `elements` elements, which begin as `run` states, into tiles.
fn tiles(run: Tile, elements: u64) -> impl Iterator<Item = Tile> {
    let starts = (0..elements).step_by(MAX_TILE_ELEMENTS as usize);
    starts.map(move |start| {
        let left = u32::try_from(elements - start).unwrap_or(u32::MAX);
        Tile {
            first: run.first + start,
            count: left.min(MAX_TILE_ELEMENTS),
            ..run
        }
    })
}
