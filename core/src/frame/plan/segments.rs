//! Divides a coded plane into segments.

use core::mem::size_of;

use super::{
    Coding, DevicePlan, HostSegment, HuffmanTable, MAX_CODE_BITS, PlacedFrame, PlannedPlane,
    RansTable, Reason, Segment, Space, source_of,
};
use crate::engine::Engine;
use crate::entropy::zstd::Fault;
use crate::entropy::zstd::outline::{CodeWeights, Part, outline};
use crate::frame::plane::{Coded, Method, Plane, StoredPlane, ZstdFrame};
use crate::{Error, Result};

/// Why a tensor does not become part of a plan.
pub(super) enum Stop {
    Cpu(Reason),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Error(fault.into_error())
    }
}

/// The memory that the lists of one frame may take, which is its stored length plus
/// [`FREE_BYTES`], and the bytes that are left to the host.
pub(super) struct Budget {
    left: usize,
    host_bytes: u64,
    reason: Reason,
}

/// Enough for the lists of a small tensor.
const FREE_BYTES: usize = 4096;

impl Budget {
    pub fn of(frame: &[u8]) -> Self {
        Self {
            left: frame.len().saturating_add(FREE_BYTES),
            host_bytes: 0,
            reason: Reason::Matches,
        }
    }

    /// Accounts for one record of type `T`.
    pub fn spend<T>(&mut self) -> Result<(), Stop> {
        let left = self.left.checked_sub(size_of::<T>());
        self.left = left.ok_or(Stop::Cpu(Reason::ShortStreams))?;
        Ok(())
    }

    /// Accounts for `count` records of type `T`.
    #[cfg(any(feature = "extensions", feature = "deltas"))]
    pub fn spend_all<T>(&mut self, count: u64) -> Result<(), Stop> {
        let len = usize::try_from(count).ok();
        let len = len.and_then(|count| count.checked_mul(size_of::<T>()));
        let left = len.and_then(|len| self.left.checked_sub(len));
        self.left = left.ok_or(Stop::Cpu(Reason::ShortStreams))?;
        Ok(())
    }

    /// Leaves the tensor to the CPU if the host has to decode half of its `len_bytes` bytes
    /// or more anyway.
    pub fn check_share(&self, len_bytes: u64) -> Result<(), Stop> {
        match self.host_bytes > 0 && self.host_bytes >= len_bytes.div_ceil(2) {
            true => Err(Stop::Cpu(self.reason)),
            false => Ok(()),
        }
    }
}

/// Converts an index into a list to the type of the lists.
pub(super) fn number(index: usize) -> Result<u32> {
    let too_many = |_| Error::limit("a plan has 2^32 records: plan fewer tensors at a time");
    u32::try_from(index).map_err(too_many)
}

fn stream_len(len_bytes: u64) -> Result<u32, Stop> {
    u32::try_from(len_bytes).map_err(|_| Stop::Cpu(Reason::LongStream))
}

impl DevicePlan {
    pub(super) fn lens(&self) -> [usize; 8] {
        [
            self.tensors.len(),
            self.planes.len(),
            self.segments.len(),
            self.huffman_tables.len(),
            self.rans_tables.len(),
            self.host_segments.len(),
            self.lattices.len(),
            self.lattice_groups.len(),
        ]
    }

    pub(super) fn truncate(&mut self, lens: [usize; 8]) {
        let [
            tensors,
            planes,
            segments,
            huffman_tables,
            rans_tables,
            host_segments,
            lattices,
            lattice_groups,
        ] = lens;
        self.tensors.truncate(tensors);
        self.planes.truncate(planes);
        self.segments.truncate(segments);
        self.huffman_tables.truncate(huffman_tables);
        self.rans_tables.truncate(rans_tables);
        self.host_segments.truncate(host_segments);
        self.lattices.truncate(lattices);
        self.lattice_groups.truncate(lattice_groups);
    }

    /// Adds a plane without segments.
    pub(super) fn open_plane(
        &mut self,
        budget: &mut Budget,
        space: Space,
        at: u64,
        len_bytes: u64,
        tensor: u32,
    ) -> Result<(), Stop> {
        budget.spend::<PlannedPlane>()?;
        number(self.planes.len())?;
        self.planes.push(PlannedPlane {
            at,
            len: len_bytes,
            space: space as u32,
            tensor,
            first_segment: number(self.segments.len())?,
            segments: 0,
        });
        Ok(())
    }

    /// Adds the segments of the last plane of the list, which is `plane`.
    pub(super) fn add_segments<E: Engine>(
        &mut self,
        engine: &E,
        budget: &mut Budget,
        placed: &PlacedFrame,
        plane: &Plane,
    ) -> Result<(), Stop> {
        let len_bytes = plane.len_bytes();
        if len_bytes == 0 {
            return Ok(());
        }
        match plane.coded() {
            Coded::Store(StoredPlane(bytes)) => self.add_stored(budget, placed, 0, bytes),
            Coded::Zstd(ZstdFrame(frame)) => self.add_zstd(budget, placed, 0, frame, len_bytes),
            Coded::Blocks(blocks) => {
                let mut position = 0;
                for frame in blocks.frames() {
                    let len_bytes = blocks.block_bytes().min(len_bytes - position);
                    self.add_zstd(budget, placed, position, frame, len_bytes)?;
                    position += len_bytes;
                }
                Ok(())
            }
            Coded::Rans(payload) if is_long(len_bytes, payload.chunk_count()) => {
                budget.reason = Reason::LongChunk;
                let method = Method::Rans;
                self.add_host(budget, placed, 0, plane.payload(), len_bytes, method)
            }
            Coded::RansAdaptive(payload) if is_long(len_bytes, payload.chunk_count()) => {
                budget.reason = Reason::LongChunk;
                let method = Method::RansAdaptive;
                self.add_host(budget, placed, 0, plane.payload(), len_bytes, method)
            }
            Coded::Rans(payload) => {
                let (table, chunks) = payload.outline(len_bytes);
                if let Some(table) = table {
                    self.add_rans_table(budget, table)?;
                }
                let mut position = 0;
                for (chunk, symbols) in chunks {
                    position = self.add_rans(budget, placed, position, chunk, symbols)?;
                }
                Ok(())
            }
            Coded::RansAdaptive(payload) => {
                let mut position = 0;
                for chunk in payload.outline(engine, len_bytes)? {
                    self.add_rans_table(budget, &chunk.frequencies)?;
                    let (coded, symbols) = (chunk.coded, chunk.symbols);
                    position = self.add_rans(budget, placed, position, coded, symbols)?;
                }
                Ok(())
            }
            Coded::RansOrder1(_) => {
                budget.reason = Reason::Order1;
                let method = Method::RansOrder1;
                self.add_host(budget, placed, 0, plane.payload(), len_bytes, method)
            }
        }
    }

    /// Adds stored bytes.
    pub(super) fn add_stored(
        &mut self,
        budget: &mut Budget,
        placed: &PlacedFrame,
        position: u64,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        let mut position = position;
        for part in bytes.chunks(MAX_STORED_BYTES) {
            let source = source_of(placed, part)?;
            let len = part.len() as u64;
            self.add_segment(budget, source, part.len(), position, len, Coding::Stored, 0)?;
            position += len;
        }
        Ok(())
    }

    /// Adds the segments of a zstd frame, or the frame as a whole for the host.
    pub(super) fn add_zstd(
        &mut self,
        budget: &mut Budget,
        placed: &PlacedFrame,
        start: u64,
        frame: &[u8],
        len_bytes: u64,
    ) -> Result<(), Stop> {
        let before = self.lens();
        let mut position = start;
        let mut coding = (Coding::Flat, 0);
        let is_covered = outline(frame, len_bytes, |part| {
            match part {
                Part::Code(code) => {
                    coding = match code.is_flat {
                        true => (Coding::Flat, code.bits),
                        false => (Coding::Huffman, self.add_huffman_table(budget, &code)?),
                    };
                    return Ok(());
                }
                Part::Stored(bytes) => {
                    self.add_stored(budget, placed, position, bytes)?;
                    position += bytes.len() as u64;
                }
                Part::Run(byte, len) => {
                    let (len, byte) = (len as u64, u32::from(byte));
                    self.add_segment(budget, placed.source, 0, position, len, Coding::Run, byte)?;
                    position += len;
                }
                Part::Stream(stream, symbols) => {
                    let source = source_of(placed, stream)?;
                    let (len, (coding, parameter)) = (symbols as u64, coding);
                    let stored = stream.len();
                    self.add_segment(budget, source, stored, position, len, coding, parameter)?;
                    position += len;
                }
            }
            Ok::<_, Stop>(())
        })?;
        if is_covered {
            return Ok(());
        }
        if let Some(plane) = self.planes.last_mut() {
            plane.segments = number(before[2] - plane.first_segment as usize)?;
        }
        self.truncate(before);
        self.add_host(budget, placed, start, frame, len_bytes, Method::Zstd)
    }

    fn add_huffman_table(&mut self, budget: &mut Budget, code: &CodeWeights) -> Result<u32, Stop> {
        if code.bits > MAX_CODE_BITS {
            return Err(Stop::Cpu(Reason::LongCode));
        }
        budget.spend::<HuffmanTable>()?;
        let mut weights = [0; 128];
        for (byte, [even, odd]) in weights.iter_mut().zip(code.weights.as_chunks().0) {
            *byte = even | odd << 4;
        }
        let index = number(self.huffman_tables.len())?;
        self.huffman_tables.push(HuffmanTable {
            weights,
            bits: code.bits,
        });
        Ok(index)
    }

    fn add_rans_table(&mut self, budget: &mut Budget, table: &[u16; 256]) -> Result<(), Stop> {
        budget.spend::<RansTable>()?;
        number(self.rans_tables.len())?;
        self.rans_tables.push(RansTable {
            frequencies: *table,
        });
        Ok(())
    }

    /// Adds a chunk of rANS symbols with the last table of the list. Returns the position
    /// after it.
    fn add_rans(
        &mut self,
        budget: &mut Budget,
        placed: &PlacedFrame,
        position: u64,
        chunk: &[u8],
        symbols: u64,
    ) -> Result<u64, Stop> {
        let source = source_of(placed, chunk)?;
        let table = number(self.rans_tables.len().saturating_sub(1))?;
        self.add_segment(
            budget,
            source,
            chunk.len(),
            position,
            symbols,
            Coding::Rans,
            table,
        )?;
        Ok(position + symbols)
    }

    fn add_host(
        &mut self,
        budget: &mut Budget,
        placed: &PlacedFrame,
        position: u64,
        payload: &[u8],
        len_bytes: u64,
        method: Method,
    ) -> Result<(), Stop> {
        budget.spend::<HostSegment>()?;
        budget.host_bytes = budget.host_bytes.saturating_add(len_bytes);
        let index = number(self.host_segments.len())?;
        self.host_segments.push(HostSegment {
            source: source_of(placed, payload)?,
            source_len: payload.len() as u64,
            len: len_bytes,
            segment: number(self.segments.len())?,
            method: method as u32,
        });
        self.add_segment(
            budget,
            placed.source,
            0,
            position,
            len_bytes,
            Coding::Host,
            index,
        )
    }

    /// Adds a segment to the last plane of the list.
    #[allow(clippy::too_many_arguments)] // the fields of the record
    fn add_segment(
        &mut self,
        budget: &mut Budget,
        source: u64,
        source_len: usize,
        position: u64,
        len_bytes: u64,
        coding: Coding,
        parameter: u32,
    ) -> Result<(), Stop> {
        budget.spend::<Segment>()?;
        let plane = number(self.planes.len().saturating_sub(1))?;
        number(self.segments.len())?;
        self.segments.push(Segment {
            source,
            position,
            source_len: stream_len(source_len as u64)?,
            len: stream_len(len_bytes)?,
            coding: coding as u32,
            parameter,
            plane,
            reserved: 0,
        });
        if let Some(plane) = self.planes.last_mut() {
            plane.segments += 1;
        }
        Ok(())
    }
}

/// Returns whether the longest of `chunks` rANS chunks of a plane of `len_bytes` bytes
/// has more than [`MAX_CHUNK_SYMBOLS`] symbols.
fn is_long(len_bytes: u64, chunks: usize) -> bool {
    len_bytes.div_ceil(chunks.max(1) as u64) > MAX_CHUNK_SYMBOLS
}

/// The largest number of symbols of a rANS chunk that a device decodes. This crate writes
/// longer ones only for planes of more than 2^28 bytes. The symbols of a chunk are decoded
/// sequentially, and a table with a single symbol needs no coded bytes for any number of
/// them; the limit bounds how long such a chunk keeps a GPU busy.
const MAX_CHUNK_SYMBOLS: u64 = 1 << 22;

/// The length of a segment of stored bytes, except for the last one of its bytes. It is
/// the largest block of a zstd frame, so that segments are about equally much work.
const MAX_STORED_BYTES: usize = 128 << 10;
