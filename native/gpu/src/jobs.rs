//! Divides the work on a plan into blocks of threads.

use zerocopy::{Immutable, IntoBytes, KnownLayout};
use zstn_core::frame::plan::{
    Coding, DevicePlan, Join, JoinedTensor, NONE, PlannedPlane, Segment, Space,
};

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

/// The jobs of all kernels, for one plan.
#[derive(Debug, Clone, Default)]
pub struct Jobs {
    /// Indices of the segments that `segments.cu` decodes.
    pub segments: Vec<u32>,
    /// Indices of the segments that `rans.cu` decodes.
    pub rans: Vec<u32>,
    /// Tiles of bfloat16 tensors.
    pub bfloat16: Vec<Tile>,
    /// Tiles of all other tensors whose planes have to be joined.
    pub joins: Vec<Tile>,
}

impl Jobs {
    /// Divides the work on `plan`.
    #[must_use]
    pub fn new(plan: &DevicePlan) -> Self {
        let mut jobs = Self::default();
        for plane in plan.planes() {
            let is_bfloat16 =
                tensor_of(plan, plane).is_some_and(|tensor| tensor.join == Join::Bfloat16 as u32);
            if !is_bfloat16 {
                for (number, segment) in segments_of(plan, plane) {
                    jobs.add_segment(number, segment);
                }
            }
        }
        for (number, tensor) in (0..).zip(plan.tensors()) {
            if tensor.join == Join::Bfloat16 as u32 {
                jobs.add_bfloat16(plan, number, tensor);
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
            jobs.joins.extend(tiles(tile, tensor.elements));
        }
        jobs
    }

    /// Adds a segment that is decoded into its plane.
    fn add_segment(&mut self, number: u32, segment: &Segment) {
        if segment.coding == Coding::Rans as u32 {
            self.rans.push(number);
        } else if segment.coding != Coding::Host as u32 {
            self.segments.push(number);
        }
    }

    /// Adds the tiles of a bfloat16 tensor, and the segments that are not read by tiles.
    fn add_bfloat16(&mut self, plan: &DevicePlan, number: u32, tensor: &JoinedTensor) {
        let first = tensor.first_plane as usize;
        let Some([signs, exponents, mantissas]) = plan.planes()[first..].first_chunk() else {
            return;
        };
        let signs_at = if let Some(at) = stored_at(plan, signs) {
            at
        } else {
            for (number, segment) in segments_of(plan, signs) {
                self.add_segment(number, segment);
            }
            signs.at | IN_SCRATCH
        };
        for (number, segment) in segments_of(plan, mantissas) {
            let is_stored = segment.coding == Coding::Stored as u32;
            let is_flat = segment.coding == Coding::Flat as u32 && segment.parameter == 7;
            if !is_stored && !is_flat {
                self.add_segment(number, segment);
            }
        }
        let mut mantissas = segments_of(plan, mantissas).peekable();
        for (exponents_number, segment) in segments_of(plan, exponents) {
            let is_huffman = segment.coding == Coding::Huffman as u32;
            if !is_huffman {
                self.add_segment(exponents_number, segment);
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
