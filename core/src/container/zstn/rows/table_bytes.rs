//! The encoding of a block table (docs/formats/zstn-integrity.md 5).

use alloc::vec::Vec;

use super::BlockTable;
use super::table::{Block, PlaneBlocks, bad};
use crate::bytes::{Cursor, index};
use crate::checksum::{agrees, checksum};
use crate::frame::plane::Method;
use crate::frame::z4ai::Transform;
use crate::transform::bitfield::{BFLOAT16, FLOAT16, FLOAT32, FloatFormat};
use crate::{Error, Result, Rule};

const CHECKSUM_BYTES: u64 = 8;
/// The float formats of bit fields, by the second byte of the table.
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
