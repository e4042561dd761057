//! Plans for decoding frames on an accelerator, such as a GPU.
//!
//! A [`DevicePlan`] describes one or several tensors by flat lists. Planes consist of
//! [`Segment`]s, which a device decodes independently of each other; a
//! [`JoinedTensor`] states how planes become elements. Lists contain only positions
//! and tables. No symbol of a tensor is decoded to make them, and no coded byte is
//! copied: a device needs the lists, the stored frames (the source) and two buffers,
//! the output and a scratch buffer.
//!
//! The host reads all descriptions of Huffman codes, all rANS tables and the scales of
//! lattices, which are usually a few hundredths of the data or less. A device only has to
//! expand the tables.
//!
//! Everything that the decoder of this crate checks before it decodes has been checked
//! in a plan: all ranges lie inside the frame, segments fill their planes exactly, and
//! codes are complete. A device has to check that each stream ends exactly with its
//! last symbol, and that no field has more bits than its width.
//!
//! A record of a delta is decoded from the base's tensor, which the output has to contain
//! when the plan is executed. A device compares the restored tensor with its digest.
//!
//! A tensor that a plan does not cover is a [`Placement::Cpu`], which is not an error.

use alloc::vec::Vec;
use core::ops::Range;

use zerocopy::IntoBytes as _;

use super::plane::{Method, Plane};
use super::z4ai::{self, Transform};
use super::{ContainedFrame, Edition, Frame, FrameFamily as _};
use crate::engine::Engine;
use crate::transform::bitfield::{BFLOAT16, FLOAT16};
use crate::{Error, Result, bytes};

#[cfg(feature = "deltas")]
mod difference;
#[cfg(feature = "extensions")]
mod lattice;
mod lists;
mod segments;
mod structured;

pub use lists::{
    Coding, DifferenceBlock, DifferenceTable, HostSegment, HuffmanTable, Join, JoinedTensor,
    Lattice, LatticeGroup, MAX_CODE_BITS, NONE, PlannedDifference, PlannedDigest, PlannedPlane,
    PlannedXor, RansTable, Segment, Space,
};
use segments::{Budget, Stop};

/// A stored frame and the place of its tensor.
#[derive(Debug, Clone)]
pub struct PlacedFrame<'a> {
    /// The stored bytes.
    pub bytes: &'a [u8],
    /// Offset of these bytes in the source of the device.
    pub source: u64,
    /// The bytes of the output that the tensor fills.
    pub output: Range<u64>,
    /// The edition of the container, which determines the allowed frames.
    pub edition: Edition,
}

/// Where a tensor has to be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The plan contains the tensor.
    Device,
    /// The tensor has to be decoded by the CPU. The plan does not contain it.
    Cpu(Reason),
}

/// The reason why a tensor, or a segment of it, is left to the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The frame is of a family without a plan, or of a variant without one: a lattice with
    /// groups that are stored unchanged, or whose symbols have two bytes or are not one
    /// plane; a sparse frame whose values are split into bytes for another element width.
    Family,
    /// Most bytes are in zstd frames with matches to copy or with a checksum.
    Matches,
    /// Most bytes are coded by rANS of order 1.
    Order1,
    /// Most bytes are in rANS chunks of more than 2^22 symbols.
    LongChunk,
    /// A Huffman code has codes of more than [`MAX_CODE_BITS`] bits.
    LongCode,
    /// A stream has 2^32 bytes or more.
    LongStream,
    /// The lists would be longer than the frame, because its streams are very short.
    ShortStreams,
    /// The elements have more bytes than a device joins.
    WideElements,
    /// The file has a digest of the decoded bytes, and no checksum of the stored bytes.
    Digest,
    /// The frame is a difference whose predictions include a product of two matrices.
    LowRank,
    /// The tensor is decoded from other bytes of the base than the tensor of its name, or
    /// the file has no digest of the restored tensor.
    Base,
}

/// The largest number of bytes of an element whose byte planes are joined.
const MAX_ITEM_BYTES: usize = 8;
/// The alignment of planes in the scratch buffer, in bytes.
const SCRATCH_ALIGN: u64 = 256;

/// Lists of everything that a device has to decode.
#[derive(Debug, Clone, Default)]
pub struct DevicePlan {
    tensors: Vec<JoinedTensor>,
    planes: Vec<PlannedPlane>,
    segments: Vec<Segment>,
    huffman_tables: Vec<HuffmanTable>,
    rans_tables: Vec<RansTable>,
    lattices: Vec<Lattice>,
    lattice_groups: Vec<LatticeGroup>,
    host_segments: Vec<HostSegment>,
    #[cfg(feature = "deltas")]
    of_deltas: difference::Lists,
    scratch_len_bytes: u64,
    source_end: u64,
    output_end: u64,
}

impl DevicePlan {
    /// Creates a plan without tensors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor. Outputs must be added in ascending order and must not overlap.
    /// `engine` decodes the packed tables of rANS planes.
    ///
    /// # Errors
    /// A malformed frame, or one whose tensor does not have the length of its output;
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind) if a range is invalid, or the output
    /// begins before the end of an output that is already planned. An error leaves the
    /// plan unchanged.
    pub fn add<E: Engine>(&mut self, engine: &E, frame: &PlacedFrame) -> Result<Placement> {
        self.add_with(frame, |plan| plan.add_frame(engine, frame))
    }

    fn add_frame<E: Engine>(&mut self, engine: &E, frame: &PlacedFrame) -> Result<(), Stop> {
        let len_bytes = frame.output.end - frame.output.start;
        let contained = ContainedFrame::parse(frame.bytes, len_bytes, frame.edition)?;
        match contained.frame() {
            Frame::Z4ai(parsed) => self.add_planes(engine, frame, parsed),
            Frame::Palette(parsed) => self.add_palette(frame, parsed),
            Frame::Sparse(parsed) => self.add_sparse(frame, parsed),
            #[cfg(feature = "extensions")]
            Frame::Lattice(parsed) => self.add_lattice(engine, frame, parsed),
            _ => Err(Stop::Cpu(Reason::Family)),
        }
    }

    /// Adds a tensor by `add`, which may leave incomplete lists if it fails.
    fn add_with(
        &mut self,
        PlacedFrame {
            bytes,
            source,
            output,
            ..
        }: &PlacedFrame,
        add: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> Result<Placement> {
        let source_end = source.checked_add(bytes.len() as u64);
        let (Some(source_end), true) = (source_end, output.start <= output.end) else {
            return Err(Error::invalid_input(
                "a range of a planned tensor is invalid",
            ));
        };
        if output.start < self.output_end {
            return Err(Error::invalid_input("a planned tensor is out of order"));
        }
        let before = self.lens();
        #[cfg(feature = "deltas")]
        let of_deltas_before = self.of_deltas.lens();
        let scratch_before = self.scratch_len_bytes;
        let Err(stop) = add(self) else {
            self.source_end = self.source_end.max(source_end);
            self.output_end = output.end;
            return Ok(Placement::Device);
        };
        self.truncate(before);
        #[cfg(feature = "deltas")]
        self.of_deltas.truncate(of_deltas_before);
        self.scratch_len_bytes = scratch_before;
        match stop {
            Stop::Cpu(reason) => Ok(Placement::Cpu(reason)),
            Stop::Error(error) => Err(error),
        }
    }

    fn add_planes<E: Engine>(
        &mut self,
        engine: &E,
        placed: &PlacedFrame,
        frame: &z4ai::Frame,
    ) -> Result<(), Stop> {
        let mut budget = Budget::of(placed.bytes);
        let tail = frame.info().tail();
        let tail_at = placed.output.end - tail.len() as u64;
        let item_bytes = frame.transform().item_bytes();
        let join = match frame.transform() {
            _ if item_bytes == 1 => None,
            Transform::Opaque => None,
            Transform::BytePlane(_) if item_bytes > MAX_ITEM_BYTES => {
                return Err(Stop::Cpu(Reason::WideElements));
            }
            Transform::BytePlane(_) => Some(Join::Bytes),
            Transform::BitField(BFLOAT16) => Some(Join::Bfloat16),
            Transform::BitField(FLOAT16) => Some(Join::Float16),
            Transform::BitField(_) => Some(Join::Float32),
        };
        let tensor = match join {
            None => NONE,
            Some(join) => {
                let elements = (tail_at - placed.output.start) / item_bytes as u64;
                let planes = frame.planes().len();
                self.open_tensor(&mut budget, placed, join, item_bytes, elements, planes)?
            }
        };
        for plane in frame.planes() {
            let len_bytes = plane.len_bytes();
            match tensor {
                NONE => {
                    let at = placed.output.start;
                    self.open_plane(&mut budget, Space::Output, at, len_bytes, NONE)?;
                }
                _ => self.open_scratch_plane(&mut budget, len_bytes, tensor)?,
            }
            self.add_segments(engine, &mut budget, placed, plane)?;
        }
        self.finish(&mut budget, placed, tail)
    }

    /// Adds a tensor of `elements` elements, which are joined from the next `planes` planes.
    /// Returns its index.
    fn open_tensor(
        &mut self,
        budget: &mut Budget,
        placed: &PlacedFrame,
        join: Join,
        item_bytes: usize,
        elements: u64,
        planes: usize,
    ) -> Result<u32, Stop> {
        budget.spend::<JoinedTensor>()?;
        let number = segments::number(self.tensors.len())?;
        self.tensors.push(JoinedTensor {
            output: placed.output.start,
            elements,
            first_plane: segments::number(self.planes.len())?,
            planes: segments::number(planes)?,
            join: join as u32,
            item_bytes: segments::number(item_bytes)?,
            parameter: 0,
            reserved: 0,
        });
        Ok(number)
    }

    /// Adds a plane of a tensor, which is in the scratch buffer.
    fn open_scratch_plane(
        &mut self,
        budget: &mut Budget,
        len_bytes: u64,
        tensor: u32,
    ) -> Result<(), Stop> {
        let at = self.scratch(len_bytes)?;
        self.open_plane(budget, Space::Scratch, at, len_bytes, tensor)
    }

    /// Adds the bytes after the last element, and leaves the tensor to the CPU if the host
    /// has to decode too much of it.
    fn finish(
        &mut self,
        budget: &mut Budget,
        placed: &PlacedFrame,
        tail: &[u8],
    ) -> Result<(), Stop> {
        if !tail.is_empty() {
            let len_bytes = tail.len() as u64;
            let at = placed.output.end - len_bytes;
            self.open_plane(budget, Space::Output, at, len_bytes, NONE)?;
            self.add_stored(budget, placed, 0, tail)?;
        }
        budget.check_share(placed.output.end - placed.output.start)
    }

    /// Reserves `len_bytes` bytes of the scratch buffer and returns their offset.
    fn scratch(&mut self, len_bytes: u64) -> Result<u64> {
        let at = self.scratch_len_bytes;
        let end = at.checked_add(len_bytes);
        let end = end.and_then(|end| end.checked_next_multiple_of(SCRATCH_ALIGN));
        self.scratch_len_bytes =
            end.ok_or_else(|| Error::limit("a plan needs over 2^64 bytes of scratch memory"))?;
        Ok(at)
    }

    /// Returns the tensors whose planes have to be joined.
    #[must_use]
    pub fn tensors(&self) -> &[JoinedTensor] {
        &self.tensors
    }

    /// Returns the planes of all tensors, in the order in which the tensors were added.
    #[must_use]
    pub fn planes(&self) -> &[PlannedPlane] {
        &self.planes
    }

    /// Returns the segments of all planes, in the order of the planes.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the Huffman codes.
    #[must_use]
    pub fn huffman_tables(&self) -> &[HuffmanTable] {
        &self.huffman_tables
    }

    /// Returns the rANS tables.
    #[must_use]
    pub fn rans_tables(&self) -> &[RansTable] {
        &self.rans_tables
    }

    /// Returns the lattices.
    #[must_use]
    pub fn lattices(&self) -> &[Lattice] {
        &self.lattices
    }

    /// Returns the groups of all lattices, in the order of the lattices.
    #[must_use]
    pub fn lattice_groups(&self) -> &[LatticeGroup] {
        &self.lattice_groups
    }

    /// Returns the segments that [`HostSegment::decode`] has to decode.
    #[must_use]
    pub fn host_segments(&self) -> &[HostSegment] {
        &self.host_segments
    }

    /// Returns the length of the scratch buffer in bytes.
    #[must_use]
    pub fn scratch_len_bytes(&self) -> u64 {
        self.scratch_len_bytes
    }

    /// Returns the length of the source in bytes that the plan needs at least: all coded
    /// bytes are before this offset.
    #[must_use]
    pub fn source_len_bytes(&self) -> u64 {
        self.source_end
    }

    /// Returns the length of the output in bytes that the plan needs at least.
    #[must_use]
    pub fn output_len_bytes(&self) -> u64 {
        self.output_end
    }

    /// Returns the bytes of all lists in the order tensors, planes, segments, Huffman
    /// tables, rANS tables, lattices, groups of lattices, differences, their codes, tables
    /// and blocks, digests, for copying them to a device. Host segments are left out, and so
    /// are the ranges that are XORed with the base's tensor.
    #[must_use]
    pub fn list_bytes(&self) -> [&[u8]; 12] {
        #[cfg(feature = "deltas")]
        let [differences, codes, tables, blocks, digests] = self.of_deltas.bytes();
        #[cfg(not(feature = "deltas"))]
        let [differences, codes, tables, blocks, digests] = [[].as_slice(); 5];
        [
            self.tensors.as_bytes(),
            self.planes.as_bytes(),
            self.segments.as_bytes(),
            self.huffman_tables.as_bytes(),
            self.rans_tables.as_bytes(),
            self.lattices.as_bytes(),
            self.lattice_groups.as_bytes(),
            differences,
            codes,
            tables,
            blocks,
            digests,
        ]
    }
}

impl HostSegment {
    /// Decodes the segment into `out`, which must have its length. `coded` are the bytes
    /// of the source that the segment names.
    ///
    /// # Errors
    /// The bytes are damaged; [`ErrorKind::InvalidInput`](crate::ErrorKind) if `coded` or
    /// `out` has another length.
    pub fn decode<E: Engine>(&self, engine: &E, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let method = u8::try_from(self.method).ok().and_then(Method::from_id);
        let (Some(method), true) = (
            method,
            out.len() as u64 == self.len && coded.len() as u64 == self.source_len,
        ) else {
            return Err(Error::invalid_input(
                "the buffers do not have the lengths of the segment",
            ));
        };
        Plane::new(method, self.len, coded)?.decode_into(engine, out)
    }
}

/// Returns the offset of `part` in the source.
fn source_of(placed: &PlacedFrame, part: &[u8]) -> Result<u64> {
    let offset = bytes::offset_of(part, placed.bytes)
        .ok_or_else(|| Error::invalid_input("a plane lies outside its frame"))?;
    Ok(placed.source + offset as u64)
}
