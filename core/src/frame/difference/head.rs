//! The head of a frame (docs/formats/zxd1.md 3), which precedes the blocks.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::context::CONTEXTS;
use super::low_rank::LowRank;
use super::token::{MAX_SHIFT, SYMBOLS, extra_bits};
use super::{MAGIC, VERSION};
use crate::bytes::Cursor;
use crate::checksum::agrees;
use crate::entropy::bits::{BitReader, BitWriter};
use crate::entropy::interleaved::{Frequencies, MAX_TABLES, SLOT_BITS, SideStream};
use crate::float::FloatType;
use crate::frame::rans_blocks::{
    self, BLOCK_BYTES, Block, head_checksum, is_block_len, seal_head, write_tables_and_list,
};
use crate::{Error, Result, Rule};

/// Length in bytes of the fixed fields of the head. A reader that does not know
/// the length of the head fetches these first.
pub const FIXED_BYTES: u64 = 55;
/// Offset of the checksum, which covers the whole head except itself.
const CHECKSUM_AT: usize = 48;
const HAS_MEANS: u8 = 1;
const HAS_LOW_RANK: u8 = 2;

/// The expected difference for each value of the top six mantissa bits.
pub(crate) type Means = Box<[i32; 64]>;

/// The coding of the elements of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ContextCoding {
    /// Index of the table.
    pub table: u8,
    /// Number of low bits of a value that are stored as raw bits.
    pub shift: u8,
}

/// A parsed head whose fields are consistent.
#[derive(Debug, Clone)]
pub(crate) struct DifferenceHead<'a> {
    pub element: FloatType,
    /// Number of rANS states.
    pub states: usize,
    /// First 16 bytes of the BLAKE3 digest of the base tensor.
    pub base_digest: [u8; 16],
    /// Number of elements of the tensor.
    pub elements: u64,
    /// Number of elements of a group.
    pub group_elements: u64,
    /// Number of elements of a block.
    pub block_elements: u32,
    pub first_context: u8,
    /// One byte per group, which selects the contexts of its elements.
    pub codes: SideStream<'a>,
    pub means: Option<Means>,
    pub low_rank: Option<LowRank>,
    /// The codings of consecutive contexts, starting with `first_context`.
    pub codings: Vec<ContextCoding>,
    pub tables: Vec<Frequencies>,
    pub blocks: Vec<Block>,
    pub len_bytes: u64,
}

/// Returns the length in bytes of the head of a frame. `prefix` holds at least
/// the first [`FIXED_BYTES`] bytes of the frame.
pub fn head_len_bytes(prefix: &[u8]) -> Result<u64> {
    let mut cursor = Cursor::new(prefix);
    cursor.expect_magic(&MAGIC, Rule::FrameMagic, "ZXD1 frame")?;
    cursor.expect_version(VERSION, Rule::FrameVersion, "ZXD1 frame")?;
    cursor.take(39, "the head of a ZXD1 frame")?;
    Ok(cursor.u32("length of the head")?.into())
}

impl<'a> DifferenceHead<'a> {
    /// Parses the head at the start of `bytes`. Other data may follow it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut all = Cursor::new(bytes);
        let head_len = head_len_bytes(bytes)?;
        let head = all.take(head_len, "head of the frame")?;
        let mut cursor = Cursor::new(head);
        cursor.take(5, "magic and version")?;
        let wrong = |detail, at| Error::malformed(Rule::DifferenceHeader, detail).at(at);
        let dtype = cursor.u8("dtype")?;
        let element = FloatType::from_id(dtype)
            .ok_or_else(|| wrong(format!("dtype {dtype} does not exist, only 0 to 2"), 5))?;
        let flags = cursor.u8("flags")?;
        if flags & !(HAS_MEANS | HAS_LOW_RANK) != 0 {
            return Err(wrong(format!("unknown flags {flags:#x}"), 6));
        }
        if flags & HAS_MEANS != 0 && element != FloatType::F32 {
            return Err(wrong("elements of 16 bits have a table of means".into(), 6));
        }
        let states_log = cursor.u8("number of states")?;
        if !(3..=5).contains(&states_log) {
            return Err(wrong(format!("2^{states_log} states are not 8 to 32"), 7));
        }
        let base_digest = cursor.array("digest of the base")?;
        let elements = cursor.u64("number of elements")?;
        // If there were more elements, offsets of blocks could exceed 64 bits.
        if elements == 0 || elements > u64::MAX >> 8 {
            return Err(wrong(
                format!("a frame cannot have {elements} elements"),
                24,
            ));
        }
        let group_elements = cursor.u64("elements of a group")?;
        if !(1..=elements).contains(&group_elements) {
            let detail =
                format!("a frame of {elements} elements cannot have groups of {group_elements}");
            return Err(wrong(detail, 32));
        }
        let block_elements = cursor.u32("elements of a block")?;
        if !is_block_len(block_elements) {
            return Err(wrong(
                format!("blocks cannot have {block_elements} elements"),
                40,
            ));
        }
        cursor.take(4, "length of the head")?;
        let stored = cursor.u32("checksum of the head")?;
        if !agrees(stored, head_checksum(head, CHECKSUM_AT)) {
            let detail = "the head of the frame does not match its checksum: it is damaged, get \
                          the file again";
            return Err(Error::malformed(Rule::DifferenceHeadChecksum, detail).at(48));
        }
        let [first_context, last_context] = cursor.array("first and last context")?;
        if first_context > last_context || usize::from(last_context) >= CONTEXTS {
            let detail =
                format!("contexts {first_context} to {last_context} are not within 0 to 160");
            return Err(wrong(detail, 52));
        }
        let table_count = cursor.u8("number of tables")?;
        if table_count == 0 || usize::from(table_count) > MAX_TABLES {
            return Err(wrong(format!("{table_count} tables are not 1 to 16"), 54));
        }
        let codes = SideStream::parse(&mut cursor, elements.div_ceil(group_elements))?;
        let means = (flags & HAS_MEANS != 0)
            .then(|| read_means(&mut cursor))
            .transpose()?;
        let low_rank = (flags & HAS_LOW_RANK != 0)
            .then(|| LowRank::parse(&mut cursor, element.dtype(), elements))
            .transpose()?;
        let count = usize::from(last_context - first_context) + 1;
        let codings = read_codings(&mut cursor, count, table_count)?;
        let tables = read_tables(&mut cursor, table_count)?;
        let mut head = Self {
            element,
            states: 1 << states_log,
            base_digest,
            elements,
            group_elements,
            block_elements,
            first_context,
            codes,
            means,
            low_rank,
            codings,
            tables,
            blocks: Vec::new(),
            len_bytes: head_len,
        };
        head.read_blocks(&mut cursor)?;
        Ok(head)
    }

    fn read_blocks(&mut self, cursor: &mut Cursor) -> Result<()> {
        let count = self.elements.div_ceil(self.block_elements.into());
        let at = cursor.position() as u64;
        let list = cursor.take(BLOCK_BYTES * count, "list of blocks")?;
        if cursor.remaining() > 0 {
            let detail = format!("{} bytes follow the list of blocks", cursor.remaining());
            return Err(Error::malformed(Rule::DifferenceHeader, detail).at(44));
        }
        let states_bytes = 4 * self.states as u64;
        self.blocks = rans_blocks::read_list(
            (at, list),
            self.len_bytes,
            self.elements,
            self.block_elements,
            Rule::DifferenceBlocks,
            |block, elements| {
                let rans = states_bytes..=states_bytes + 2 * elements;
                let raw = (elements * MAX_RAW_BITS).div_ceil(8);
                rans.contains(&block.rans_len_bytes.into()) && u64::from(block.raw_len_bytes) <= raw
            },
        )?;
        Ok(())
    }

    /// Returns the length of the frame in bytes.
    pub(crate) fn frame_len_bytes(&self) -> u64 {
        self.blocks
            .last()
            .map_or(self.len_bytes, |block| block.range().end)
    }

    /// Returns the coding of `context` as one number: the index of the table in the top
    /// four bits, the shift in the low bits. A context outside the range of the head has the
    /// coding of the nearest one inside.
    pub fn choice(&self, context: usize) -> u16 {
        let number = context.saturating_sub(self.first_context.into());
        let coding = self.codings[number.min(self.codings.len() - 1)];
        u16::from(coding.table) << SLOT_BITS | u16::from(coding.shift)
    }
}

/// The maximum number of raw bits of an element.
#[allow(clippy::cast_possible_truncation)] // there are 86 symbols
const MAX_RAW_BITS: u64 = MAX_SHIFT as u64 + extra_bits((SYMBOLS - 1) as u8) as u64;

fn read_means(cursor: &mut Cursor) -> Result<Means> {
    let mut means = Box::new([0; 64]);
    for mean in means.iter_mut() {
        *mean = cursor.u32("mean difference")?.cast_signed();
    }
    Ok(means)
}

fn read_codings(cursor: &mut Cursor, count: usize, tables: u8) -> Result<Vec<ContextCoding>> {
    let at = cursor.position() as u64;
    let len_bytes = (9 * count as u64).div_ceil(8);
    let mut bits = BitReader::new(cursor.take(len_bytes, "contexts")?);
    let mut codings = Vec::with_capacity(count);
    for number in 0..count {
        let [table, _, _, _] = bits.take(4, "table of a context")?.to_le_bytes();
        let [shift, _, _, _] = bits.take(5, "shift of a context")?.to_le_bytes();
        if table >= tables || shift > MAX_SHIFT {
            let detail = format!(
                "entry {number} of the contexts has table {table} of {tables} and a shift of {shift}"
            );
            return Err(Error::malformed(Rule::DifferenceContexts, detail).at(at));
        }
        codings.push(ContextCoding { table, shift });
    }
    bits.finish(Rule::DifferenceContexts, "the contexts")
        .map_err(|error| error.within(at))?;
    Ok(codings)
}

fn read_tables(cursor: &mut Cursor, count: u8) -> Result<Vec<Frequencies>> {
    let len_bytes = cursor.u16("length of the tables")?;
    let at = cursor.position() as u64;
    let mut bits = BitReader::new(cursor.take(len_bytes.into(), "tables")?);
    let mut tables = Vec::with_capacity(count.into());
    for number in 0..count {
        let table = Frequencies::read(&mut bits).map_err(|error| error.within(at).at(at))?;
        if usize::from(table.last()) >= SYMBOLS {
            let detail = format!("table {number} has symbols up to {}", table.last());
            return Err(Error::malformed(Rule::InterleavedTable, detail).at(at));
        }
        tables.push(table);
    }
    bits.finish(Rule::InterleavedTable, "the tables")
        .map_err(|error| error.within(at))?;
    Ok(tables)
}

/// The fields of a head that an encoder sets.
pub(super) struct HeadFields<'a> {
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
    pub codings: &'a [ContextCoding],
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
        write_tables_and_list(self.tables, blocks, &mut out)?;
        seal_head(&mut out, CHECKSUM_AT)?;
        Some(out)
    }
}
