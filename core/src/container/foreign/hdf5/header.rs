//! The header of an object: a list of messages (docs/formats/hdf5.md 2).

use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::file::{Fields, File, refuse};
use crate::container::foreign::random_access::Read;
use crate::limits::HDF5_MESSAGES;
use crate::{Error, Rule};

/// Types of messages.
pub(super) mod kind {
    pub const DATASPACE: u64 = 1;
    pub const LINK_INFO: u64 = 2;
    pub const DATATYPE: u64 = 3;
    pub const FILL_VALUE: u64 = 5;
    pub const LINK: u64 = 6;
    pub const EXTERNAL_FILES: u64 = 7;
    pub const LAYOUT: u64 = 8;
    pub const FILTERS: u64 = 11;
    pub const ATTRIBUTE: u64 = 12;
    pub const CONTINUATION: u64 = 16;
    pub const SYMBOL_TABLE: u64 = 17;
    pub const ATTRIBUTE_INFO: u64 = 21;
}

/// A message of a header.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub kind: u64,
    /// True if the content is stored in another object.
    pub is_shared: bool,
    pub content: Vec<u8>,
    /// The offset of the content in the file.
    pub at: u64,
}

/// The messages of an object.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub messages: Vec<Message>,
    pub at: u64,
}

impl Header {
    /// Returns the first message of a type.
    pub fn find(&self, kind: u64) -> Option<&Message> {
        self.messages.iter().find(|message| message.kind == kind)
    }

    /// Reads the header at `at`.
    pub fn read(file: &mut File, at: u64) -> Read<Self> {
        let first: [u8; 4] = file.access.array(at)?;
        match first {
            [b'O', b'H', b'D', b'R'] => Self::version_2(file, at),
            [1, ..] => Self::version_1(file, at),
            _ => Err(refuse(Rule::Hdf5Header, "there is no header at its address", at).into()),
        }
    }

    fn version_1(file: &mut File, at: u64) -> Read<Self> {
        let head: [u8; 16] = file.access.array(at)?;
        let count = u64::from(u16::from_le_bytes([head[2], head[3]]));
        let len_bytes = u64::from(u32::from_le_bytes([head[8], head[9], head[10], head[11]]));
        let mut blocks = VecDeque::new();
        blocks.push_back(at + 16..at.saturating_add(16 + len_bytes));
        let mut messages = Vec::new();
        // Each block is read as a whole, and a continuation costs a message, so the
        // number of messages bounds the number of blocks.
        while let Some(block) = blocks.pop_front() {
            let bytes = block_bytes(file, &block, 0)?;
            let mut fields = fields(file, &bytes, block.start);
            while fields.bytes.len() >= 8 {
                let kind = fields.number(2)?;
                let len = fields.number(2)?;
                let flags = fields.u8()?;
                fields.take(3)?;
                let start = fields.at;
                let content = fields.take(len)?;
                let is_shared = flags & 2 != 0;
                add(&mut messages, kind, is_shared, content, start)?;
                blocks.extend(continuation(file, kind, content, start)?);
            }
        }
        if messages.len() as u64 != count {
            let detail = "the header does not have the number of messages that it states";
            return Err(refuse(Rule::Hdf5Header, detail, at).into());
        }
        Ok(Self { messages, at })
    }

    fn version_2(file: &mut File, at: u64) -> Read<Self> {
        let head: [u8; 6] = file.access.array(at)?;
        let flags = head[5];
        if head[4] != 2 {
            return Err(refuse(Rule::Hdf5Header, "the version of a header is unknown", at).into());
        }
        let mut start = at + 6;
        start += if flags & 0x20 != 0 { 16 } else { 0 };
        start += if flags & 0x10 != 0 { 4 } else { 0 };
        let size = 1 << (flags & 3);
        let len_bytes = file.number(start, size)?;
        start += size;
        let end = start.saturating_add(len_bytes).saturating_add(4);
        let order_bytes = if flags & 4 != 0 { 2 } else { 0 };
        let mut blocks = VecDeque::new();
        blocks.push_back(start..end);
        let mut messages = Vec::new();
        let mut is_first = true;
        while let Some(block) = blocks.pop_front() {
            let mut start = 0;
            if !is_first {
                file.expect(block.start, b"OCHK", Rule::Hdf5Header)?;
                start = 4;
            }
            is_first = false;
            let whole = if start == 0 {
                at..block.end
            } else {
                block.clone()
            };
            let start = block.start + start;
            let bytes = block_bytes(file, &(start..block.end), 4)?;
            let mut fields = fields(file, &bytes, start);
            // A gap that is too short for a message may follow.
            while fields.bytes.len() as u64 >= 4 + order_bytes {
                let kind = fields.number(1)?;
                let len = fields.number(2)?;
                let flags = fields.u8()?;
                fields.take(order_bytes)?;
                let start = fields.at;
                let content = fields.take(len)?;
                add(&mut messages, kind, flags & 2 != 0, content, start)?;
                blocks.extend(continuation(file, kind, content, start)?);
            }
            // A damaged length would be reported as a wrong checksum.
            file.checked(whole.start, whole.end - whole.start, Rule::Hdf5Header)?;
        }
        Ok(Self { messages, at })
    }
}

/// Returns the bytes of a block of messages, without `left_out` bytes at its
/// end.
fn block_bytes<'a>(
    file: &mut File<'_, 'a>,
    block: &Range<u64>,
    left_out: u64,
) -> Read<Cow<'a, [u8]>> {
    let len = block.end.saturating_sub(block.start);
    let left = file.access.len_bytes().saturating_sub(block.start);
    if len > left || len < left_out {
        let detail = "a header leaves the file, which is cut or damaged";
        return Err(refuse(Rule::Hdf5Header, detail, block.start).into());
    }
    file.bytes(block.start, len - left_out)
}

fn fields<'b>(file: &File, bytes: &'b [u8], at: u64) -> Fields<'b> {
    Fields {
        bytes,
        at,
        sizes: file.sizes,
        rule: Rule::Hdf5Header,
    }
}

fn add(
    messages: &mut Vec<Message>,
    kind: u64,
    is_shared: bool,
    content: &[u8],
    at: u64,
) -> Result<(), Error> {
    if messages.len() >= HDF5_MESSAGES {
        let detail = format!("a header has more than {HDF5_MESSAGES} messages, the most read");
        return Err(Error::limit(detail).at(at));
    }
    messages.push(Message {
        kind,
        is_shared,
        content: content.to_vec(),
        at,
    });
    Ok(())
}

/// Returns the block that a message of continuation refers to.
fn continuation(
    file: &File,
    kind: u64,
    content: &[u8],
    at: u64,
) -> Result<Option<Range<u64>>, Error> {
    if kind != kind::CONTINUATION {
        return Ok(None);
    }
    let mut fields = fields(file, content, at);
    let start = file.offset(fields.address()?);
    let start = start.ok_or_else(|| refuse(Rule::Hdf5Header, "a header continues nowhere", at))?;
    let len_bytes = fields.length()?;
    Ok(Some(start..start.saturating_add(len_bytes)))
}
