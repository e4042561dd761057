//! Writes the head of a frame (docs/formats/zxd1.md 3).

use alloc::vec::Vec;

use super::{Block, CHECKSUM_AT, Coding, HAS_LOW_RANK, HAS_MEANS, head_checksum};
use crate::entropy::bits::BitWriter;
use crate::entropy::interleaved::Frequencies;
use crate::float::FloatType;
use crate::frame::difference::low_rank::LowRank;
use crate::frame::difference::{MAGIC, VERSION};

/// The fields of a head that an encoder sets.
pub struct HeadFields<'a> {
    pub element: FloatType,
    pub states: usize,
    pub base_digest: [u8; 16],
    pub elements: u64,
    pub group_elements: u64,
    pub block_elements: u32,
    pub first_context: u8,
    /// The side stream of the groups' codes.
    pub codes: &'a [u8],
    pub means: Option<&'a [i32; 64]>,
    pub low_rank: Option<&'a LowRank>,
    pub codings: &'a [Coding],
    pub tables: &'a [Frequencies],
}

impl HeadFields<'_> {
    /// Returns the head of a frame with these blocks, whose `start` is ignored.
    /// Returns `None` if a field overflows.
    pub fn write(&self, blocks: &[Block]) -> Option<Vec<u8>> {
        let mut out = MAGIC.to_vec();
        let mut flags = if self.means.is_some() { HAS_MEANS } else { 0 };
        if self.low_rank.is_some() {
            flags |= HAS_LOW_RANK;
        }
        let states_log = u8::try_from(self.states.ilog2()).ok()?;
        out.extend_from_slice(&[VERSION, self.element as u8, flags, states_log]);
        out.extend_from_slice(&self.base_digest);
        out.extend_from_slice(&self.elements.to_le_bytes());
        out.extend_from_slice(&self.group_elements.to_le_bytes());
        out.extend_from_slice(&self.block_elements.to_le_bytes());
        // The length and the checksum are filled in at the end.
        out.extend_from_slice(&[0; 8]);
        let last_context = usize::from(self.first_context) + self.codings.len() - 1;
        out.push(self.first_context);
        out.push(u8::try_from(last_context).ok()?);
        out.push(u8::try_from(self.tables.len()).ok()?);
        out.extend_from_slice(self.codes);
        for mean in self.means.into_iter().flatten() {
            out.extend_from_slice(&mean.to_le_bytes());
        }
        if let Some(low_rank) = self.low_rank {
            low_rank.write(&mut out);
        }
        let mut bits = BitWriter::new(&mut out);
        for coding in self.codings {
            bits.put(coding.table.into(), 4);
            bits.put(coding.shift.into(), 5);
        }
        bits.finish();
        let mut tables = Vec::new();
        let mut bits = BitWriter::new(&mut tables);
        for table in self.tables {
            table.write(&mut bits);
        }
        bits.finish();
        out.extend_from_slice(&u16::try_from(tables.len()).ok()?.to_le_bytes());
        out.extend_from_slice(&tables);
        for block in blocks {
            for field in [block.rans_len_bytes, block.raw_len_bytes, block.checksum] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        let len_bytes = u32::try_from(out.len()).ok()?;
        out[CHECKSUM_AT - 4..CHECKSUM_AT].copy_from_slice(&len_bytes.to_le_bytes());
        let checksum = head_checksum(&out);
        out[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
        Some(out)
    }
}
