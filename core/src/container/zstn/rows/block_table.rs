//! The block table, which lists the blocks of a frame's planes, and its
//! encoding (docs/formats/zstn-integrity.md 5).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::MIN_FRAME_BYTES;
use crate::bytes::{Cursor, index, part};
use crate::checksum::{agrees, checksum, short_checksum};
use crate::frame::plane::{self, Method, Plane};
use crate::frame::z4ai::{self, Transform};
use crate::frame::{Family, FrameFamily as _, decoded_len};
use crate::transform::bitfield::{BFLOAT16, FLOAT16, FLOAT32, FloatFormat};
use crate::{Error, Result, Rule};

/// The number of bytes that one checksum covers in a plane with method 0
/// (stored), which has no blocks of its own.
pub const CHECKSUM_PIECE_BYTES: usize = 64 << 10;

/// A block of a plane, which can be fetched, checked and decoded by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) stored_len_bytes: u64,
    /// The lower half of the [checksum](crate::checksum::checksum) of the
    /// stored bytes.
    pub(super) checksum: u32,
}

impl Block {
    pub(super) fn of(stored: &[u8]) -> Self {
        Self {
            stored_len_bytes: stored.len() as u64,
            checksum: short_checksum([stored]),
        }
    }

    /// Fails if the stored bytes have another checksum.
    pub(super) fn check(self, stored: &[u8]) -> Result<()> {
        if agrees(self.checksum, short_checksum([stored])) {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::ZstnBlockChecksum,
            "a stored block does not have the checksum in the file: it is damaged, get the file \
             again",
        ))
    }
}

/// How a plane is stored: the method, the lengths, and the blocks into which it is
/// divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneBlocks {
    pub(super) method: Method,
    /// The length of the decoded plane in bytes.
    pub(super) len_bytes: u64,
    /// The offset of the first block in the frame.
    pub(super) start: u64,
    /// The number of bytes that every block but the last decodes to.
    pub(super) block_bytes: u64,
    pub(super) blocks: Vec<Block>,
}

impl PlaneBlocks {
    /// Creates a plane of `len_bytes` without blocks. Its blocks will begin at
    /// byte `start` of the frame and, if the method is [`Method::Blocks`],
    /// decode to `block_bytes` each.
    #[must_use]
    pub fn new(method: Method, len_bytes: u64, start: u64, block_bytes: u64) -> Self {
        Self {
            method,
            len_bytes,
            start,
            block_bytes: match method {
                Method::Store => CHECKSUM_PIECE_BYTES as u64,
                Method::Blocks => block_bytes,
                _ => len_bytes,
            },
            blocks: Vec::new(),
        }
    }

    /// Returns the blocks of a payload that begins at byte `start` of the
    /// frame.
    pub fn of(method: Method, len_bytes: u64, payload: &[u8], start: u64) -> Result<Self> {
        Ok(Self::of_plane(
            &Plane::new(method, len_bytes, payload)?,
            start,
        ))
    }

    fn of_plane(plane: &Plane, start: u64) -> Self {
        let (payload, method) = (plane.payload(), plane.method());
        let Some(blocks) = plane.blocks() else {
            let mut only = Self::new(method, plane.len_bytes(), start, 0);
            only.push(payload);
            return only;
        };
        let stored: usize = blocks.frames().iter().map(|block| block.len()).sum();
        let start = start + (payload.len() - stored) as u64;
        let mut table = Self::new(method, plane.len_bytes(), start, blocks.block_bytes());
        blocks.frames().iter().for_each(|block| table.push(block));
        table
    }

    /// Adds the next block. For a stored plane, adds its next bytes, whose
    /// number must be a multiple of [`CHECKSUM_PIECE_BYTES`] in every call but
    /// the last.
    pub fn push(&mut self, stored: &[u8]) {
        if self.method == Method::Store {
            let pieces = stored.chunks(CHECKSUM_PIECE_BYTES);
            self.blocks.extend(pieces.map(Block::of));
        } else {
            self.blocks.push(Block::of(stored));
        }
    }

    /// Returns the range of the plane that block `number` decodes to.
    pub(super) fn decoded(&self, number: usize) -> Range<u64> {
        // The product cannot overflow, since every block begins inside the
        // plane.
        let start = number as u64 * self.block_bytes;
        start..self.len_bytes.min(start.saturating_add(self.block_bytes))
    }

    /// Returns the range of each block's stored bytes in the frame.
    pub(super) fn stored(&self) -> impl Iterator<Item = Range<u64>> {
        let mut end = self.start;
        self.blocks.iter().map(move |block| {
            let start = end;
            end += block.stored_len_bytes;
            start..end
        })
    }

    /// Returns whether the plane consists of several blocks, so that a part of
    /// it can be read without the rest.
    pub(super) fn is_cut(&self) -> bool {
        self.blocks.len() > 1
    }
}

/// The size of one plane of a stored tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneSize {
    /// The name of the plane ([`Transform::plane_name`]).
    pub name: String,
    /// The compression method of the plane.
    pub method: Method,
    /// The length of the decoded plane in bytes.
    pub len_bytes: u64,
    /// The total length of the plane's stored blocks in bytes.
    pub stored_len_bytes: u64,
}

/// The planes of a `Z4AI` frame with their blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockTable {
    pub(super) transform: Transform,
    /// The bytes of the tensor after its last whole element.
    pub(super) tail: Vec<u8>,
    elements: u64,
    pub(super) planes: Vec<PlaneBlocks>,
}

impl BlockTable {
    /// Returns the block table of a stored frame, or `None` if it would not
    /// help: the frame is short or of another family, or every plane is a
    /// single block.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let len_bytes = frame.len() as u64;
        if len_bytes <= MIN_FRAME_BYTES || Family::recognise(frame) != Some(Family::Z4ai) {
            return None;
        }
        let frame = z4ai::Frame::parse(frame).ok()?;
        let record_bytes = |plane: &Plane| plane::HEAD_BYTES as u64 + plane.stored_len_bytes();
        let records: u64 = frame.planes().iter().map(record_bytes).sum();
        let mut position = frame.info().stored_len() as u64 - records;
        let planes = frame.planes().iter().map(|plane| {
            let start = position + plane::HEAD_BYTES as u64;
            position += record_bytes(plane);
            PlaneBlocks::of_plane(plane, start)
        });
        Self::new(
            frame.transform(),
            frame.info().tail(),
            len_bytes,
            planes.collect(),
        )
    }

    /// Creates a table like [`BlockTable::of`], for a `Z4AI` frame of
    /// `len_bytes` with these planes and these bytes after the last whole
    /// element.
    #[must_use]
    pub fn new(
        transform: Transform,
        tail: &[u8],
        len_bytes: u64,
        planes: Vec<PlaneBlocks>,
    ) -> Option<Self> {
        let is_of_use = len_bytes > MIN_FRAME_BYTES && planes.iter().any(PlaneBlocks::is_cut);
        let lens: Vec<u64> = planes.iter().map(|plane| plane.len_bytes).collect();
        is_of_use.then_some(Self {
            transform,
            tail: tail.to_vec(),
            elements: transform.elements(&lens).ok()?,
            planes,
        })
    }

    /// Parses the table of a frame of `frame_len_bytes` that holds a tensor of
    /// `tensor_len_bytes`. Offsets in errors are relative to the start of
    /// `bytes`.
    pub fn parse(bytes: &[u8], frame_len_bytes: u64, tensor_len_bytes: u64) -> Result<Self> {
        let Fields {
            transform,
            tail,
            planes,
        } = read(bytes, CHECKSUM_PIECE_BYTES as u64)?;
        for (number, plane) in planes.iter().enumerate() {
            let mut lens = plane.blocks.iter().map(|block| block.stored_len_bytes);
            let end = lens.try_fold(plane.start, u64::checked_add);
            if end.is_none_or(|end| end > frame_len_bytes) {
                return Err(bad(format!(
                    "plane {number} reaches past the frame of {frame_len_bytes} bytes"
                )));
            }
        }
        let lens: Vec<u64> = planes.iter().map(|plane| plane.len_bytes).collect();
        let elements = transform.elements(&lens)?;
        let len_bytes = decoded_len(elements, transform.item_bytes() as u64, &tail)?;
        if len_bytes != tensor_len_bytes {
            return Err(bad(format!(
                "it describes {len_bytes} bytes, the tensor has {tensor_len_bytes}"
            )));
        }
        Ok(Self {
            transform,
            tail,
            elements,
            planes,
        })
    }

    /// Compares every block of `frame` with its checksum. The frame must have
    /// the length given to [`BlockTable::parse`]. Offsets in errors are
    /// relative to the start of the frame.
    pub fn check(&self, frame: &[u8]) -> Result<()> {
        for plane in &self.planes {
            for (stored, block) in plane.stored().zip(&plane.blocks) {
                block
                    .check(part(frame, stored.clone()))
                    .map_err(|error| error.at(stored.start))?;
            }
        }
        Ok(())
    }

    /// Returns the size of each plane, in the order of the frame.
    #[must_use]
    pub fn plane_sizes(&self) -> Vec<PlaneSize> {
        let planes = self.planes.iter().enumerate();
        planes
            .map(|(number, plane)| PlaneSize {
                name: self.transform.plane_name(number),
                method: plane.method,
                len_bytes: plane.len_bytes,
                // The sum cannot overflow: all blocks lie inside the frame.
                stored_len_bytes: plane
                    .blocks
                    .iter()
                    .map(|block| block.stored_len_bytes)
                    .sum(),
            })
            .collect()
    }

    /// Returns the bytes of the table.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        write(self)
    }

    /// Returns the total length of all whole elements in bytes.
    pub(super) fn body_len_bytes(&self) -> u64 {
        self.elements * self.transform.item_bytes() as u64
    }
}

pub(super) fn bad(detail: String) -> Error {
    Error::malformed(
        Rule::ZstnBlockTable,
        format!("a block table is invalid: {detail}"),
    )
}

const CHECKSUM_BYTES: u64 = 8;
/// The float formats that [`Transform`] can divide into bit fields. The second
/// byte of the table is an index of this array.
const FORMATS: [FloatFormat; 3] = [BFLOAT16, FLOAT16, FLOAT32];

/// The fields of a table, before they are compared with the frame.
pub(super) struct Fields {
    pub(super) transform: Transform,
    pub(super) tail: Vec<u8>,
    pub(super) planes: Vec<PlaneBlocks>,
}

/// Checks the checksum at the end of a table and returns the bytes before it.
pub(super) fn fields(table: &[u8]) -> Result<&[u8]> {
    let Some(covered) = (table.len() as u64).checked_sub(CHECKSUM_BYTES) else {
        return Err(Error::malformed(Rule::Truncated, "a block table is cut off").at(0));
    };
    let (covered, sum) = table.split_at(index(covered));
    let stored = Cursor::new(sum).u64("checksum of a block table")?;
    if !agrees(stored, checksum([covered])) {
        return Err(Error::malformed(
            Rule::ZstnBlockTable,
            "a block table does not match its checksum: the file is damaged, get it again",
        )
        .at(0));
    }
    Ok(covered)
}

/// Appends the checksum to the fields of a table.
pub(super) fn seal(mut fields: Vec<u8>) -> Vec<u8> {
    let sum = checksum([fields.as_slice()]);
    fields.extend_from_slice(&sum.to_le_bytes());
    fields
}

/// Parses the fields of a table. The memory that it allocates grows with the
/// bytes read, not with the numbers in them.
pub(super) fn read(bytes: &[u8], stored_piece_bytes: u64) -> Result<Fields> {
    let mut cursor = Cursor::new(fields(bytes)?);
    let id = cursor.u8("transform")?;
    let of = cursor.u8("what the transform is of")?;
    let transform = match (id, of) {
        (0, 1) => Transform::Opaque,
        (1, width @ 1..) => Transform::BytePlane(width),
        (2, format) if usize::from(format) < FORMATS.len() => {
            Transform::BitField(FORMATS[usize::from(format)])
        }
        _ => return Err(bad(alloc::format!("there is no transform {id} of {of}"))),
    };
    let tail_len = cursor.u8("length of the tail")?;
    let tail = cursor.take(tail_len.into(), "tail")?.to_vec();
    let planes = (0..transform.planes())
        .map(|_| read_plane(&mut cursor, stored_piece_bytes))
        .collect::<Result<_>>()?;
    match cursor.remaining() {
        0 => Ok(Fields {
            transform,
            tail,
            planes,
        }),
        rest => Err(bad(alloc::format!("{rest} bytes follow it"))),
    }
}

fn read_plane(cursor: &mut Cursor, stored_piece_bytes: u64) -> Result<PlaneBlocks> {
    let at = cursor.position() as u64;
    let method = cursor.u8("plane method")?;
    let method = Method::from_id(method)
        .ok_or_else(|| bad(alloc::format!("there is no method {method}")).at(at))?;
    let start = cursor.u64("place of a plane")?;
    let len_bytes = cursor.u64("plane length")?;
    let (block_bytes, count) = match method {
        Method::Store => (stored_piece_bytes, len_bytes.div_ceil(stored_piece_bytes)),
        Method::Blocks => {
            let block_bytes = u64::from(cursor.u32("block size")?);
            if block_bytes == 0 {
                return Err(bad("blocks of no bytes".into()).at(at));
            }
            (block_bytes, len_bytes.div_ceil(block_bytes))
        }
        _ => (len_bytes, 1),
    };
    let mut plane = PlaneBlocks {
        method,
        len_bytes,
        start,
        block_bytes,
        blocks: Vec::new(),
    };
    for number in 0..count {
        let stored_len_bytes = match method {
            Method::Store => (len_bytes - number * block_bytes).min(block_bytes),
            Method::Blocks => cursor.u32("stored length of a block")?.into(),
            _ => cursor.u64("stored length of a plane")?,
        };
        plane.blocks.push(Block {
            stored_len_bytes,
            checksum: cursor.u32("checksum of a block")?,
        });
    }
    Ok(plane)
}

pub(super) fn write(table: &BlockTable) -> Vec<u8> {
    let (id, of) = match table.transform {
        Transform::Opaque => (0, 1),
        Transform::BytePlane(width) => (1, width),
        Transform::BitField(format) => {
            let place = FORMATS.iter().position(|&other| other == format);
            (2, place.map_or(0, |place| place.to_le_bytes()[0]))
        }
    };
    // The length fits in a byte: a tail is shorter than an element, whose width
    // fits in a byte.
    let tail_len = table.tail.len().to_le_bytes()[0];
    let mut out = alloc::vec![id, of, tail_len];
    out.extend_from_slice(&table.tail);
    for plane in &table.planes {
        out.push(plane.method as u8);
        out.extend_from_slice(&plane.start.to_le_bytes());
        out.extend_from_slice(&plane.len_bytes.to_le_bytes());
        if plane.method == Method::Blocks {
            out.extend_from_slice(&plane.block_bytes.to_le_bytes()[..4]);
        }
        for block in &plane.blocks {
            let len = block.stored_len_bytes.to_le_bytes();
            match plane.method {
                Method::Store => {}
                Method::Blocks => out.extend_from_slice(&len[..4]),
                _ => out.extend_from_slice(&len),
            }
            out.extend_from_slice(&block.checksum.to_le_bytes());
        }
    }
    seal(out)
}
