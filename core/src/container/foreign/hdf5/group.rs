//! The members of a group: old groups with a tree and a heap of names, and new
//! groups with links in their header (docs/formats/hdf5.md 3).

use alloc::vec::Vec;

use super::datatype::fields;
use super::file::{File, refuse};
use super::header::{Header, kind};
use crate::container::foreign::random_access::{Read, Stop};
use crate::limits::HDF5_OBJECTS;
use crate::{Error, Rule};

/// A member of a group.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub name: Vec<u8>,
    pub target: Target,
}

/// The object that a member is.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// The offset of the object's header in the file.
    Header(u64),
    /// A link that is not followed, and why.
    Link(&'static str),
}

/// The members of a group.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub all: Vec<Member>,
    /// True if some members are in structures that are not read.
    pub are_incomplete: bool,
}

fn broken(detail: &'static str, at: u64) -> Error {
    refuse(Rule::Hdf5Group, detail, at)
}

impl Members {
    /// Returns the members of the object with this header; `None` if it is no
    /// group.
    pub fn of(file: &mut File, header: &Header) -> Read<Option<Self>> {
        if let Some(message) = header.find(kind::SYMBOL_TABLE) {
            let mut fields = fields(message, file.sizes, Rule::Hdf5Group);
            let tree = file.offset(fields.address()?);
            let heap = file.offset(fields.address()?);
            let (Some(tree), Some(heap)) = (tree, heap) else {
                return Err(broken("a group has no tree or no heap", message.at).into());
            };
            let mut members = Self::default();
            let heap = Heap::read(file, heap)?;
            let mut nodes = 0;
            members.tree(file, &heap, tree, None, &mut nodes)?;
            return Ok(Some(members));
        }
        let is_group = header.find(kind::LINK_INFO).is_some() || header.find(kind::LINK).is_some();
        if !is_group {
            return Ok(None);
        }
        let mut members = Self::default();
        for message in &header.messages {
            match message.kind {
                kind::LINK => members.all.push(link(file, message)?),
                kind::LINK_INFO => {
                    let mut fields = fields(message, file.sizes, Rule::Hdf5Group);
                    fields.take(1)?;
                    let flags = fields.u8()?;
                    fields.take(if flags & 1 != 0 { 8 } else { 0 })?;
                    let heap = fields.address()?;
                    members.are_incomplete |= file.offset(heap).is_some();
                }
                _ => {}
            }
        }
        Ok(Some(members))
    }

    /// Adds the members in a node of the tree at `at`, whose level has to be
    /// `level` if that is known. Levels decrease, so the walk ends.
    fn tree(
        &mut self,
        file: &mut File,
        heap: &Heap,
        at: u64,
        level: Option<u8>,
        nodes: &mut usize,
    ) -> Read<()> {
        *nodes += 1;
        if *nodes > HDF5_OBJECTS {
            return Err(Error::limit("a group has too many nodes").at(at).into());
        }
        file.expect(at, b"TREE", Rule::Hdf5Group)?;
        let [kind, own_level, low, high] = file.access.array(at + 4)?;
        if kind != 0 || level.is_some_and(|level| level != own_level) {
            return Err(broken("a node of a group's tree has another kind or level", at).into());
        }
        let count = u64::from(u16::from_le_bytes([low, high]));
        let (address, length) = (file.sizes.address, file.sizes.length);
        let start = at + 8 + 2 * address;
        for number in 0..count {
            let child = file.address(start + length + number * (length + address))?;
            let child = child.ok_or_else(|| broken("a node has an empty child", at))?;
            let read = match own_level {
                0 => self.symbols(file, heap, child),
                _ => self.tree(file, heap, child, Some(own_level - 1), nodes),
            };
            match read {
                // All missing bytes are requested at once.
                Ok(()) | Err(Stop::Missing) => {}
                refused => return refused,
            }
        }
        Ok(())
    }

    fn symbols(&mut self, file: &mut File, heap: &Heap, at: u64) -> Read<()> {
        file.expect(at, b"SNOD", Rule::Hdf5Group)?;
        let [_, _, low, high] = file.access.array(at + 4)?;
        let count = u64::from(u16::from_le_bytes([low, high]));
        let step = 2 * file.sizes.address + 24;
        for number in 0..count {
            let entry = at + 8 + number * step;
            let name_at = file.number(entry, file.sizes.address)?;
            let header = file.address(entry + file.sizes.address)?;
            let cache = file.number(entry + 2 * file.sizes.address, 4)?;
            let target = match (cache, header) {
                (2, _) => Target::Link("it is a symbolic link, which is not followed"),
                (_, Some(header)) => Target::Header(header),
                (_, None) => return Err(broken("a member has no header", entry).into()),
            };
            if self.all.len() >= HDF5_OBJECTS {
                return Err(Error::limit("a group has too many members").at(at).into());
            }
            self.all.push(Member {
                name: heap.name(name_at, entry)?.to_vec(),
                target,
            });
        }
        Ok(())
    }
}

/// The names of an old group.
struct Heap<'a> {
    names: alloc::borrow::Cow<'a, [u8]>,
}

impl<'a> Heap<'a> {
    fn read(file: &mut File<'_, 'a>, at: u64) -> Read<Self> {
        file.expect(at, b"HEAP", Rule::Hdf5Group)?;
        let len_bytes = file.length(at + 8)?;
        let start = file.address(at + 8 + 2 * file.sizes.length)?;
        let start = start.ok_or_else(|| broken("a heap has no names", at))?;
        let end = start.checked_add(len_bytes);
        if end.is_none_or(|end| end > file.access.len_bytes()) {
            return Err(broken("a heap leaves the file, which is cut or damaged", at).into());
        }
        Ok(Self {
            names: file.bytes(start, len_bytes)?,
        })
    }

    /// Returns the name at an offset of the heap, for the entry at `entry`.
    fn name(&self, offset: u64, entry: u64) -> Result<&[u8], Error> {
        let start = usize::try_from(offset).ok();
        let rest = start.and_then(|start| self.names.get(start..));
        let name = rest.and_then(|rest| rest.split(|byte| *byte == 0).next());
        let is_ended = |name: &&[u8]| rest.is_some_and(|rest| rest.len() > name.len());
        name.filter(is_ended)
            .ok_or_else(|| broken("a name is outside of its heap", entry))
    }
}

/// Parses a link of a new group.
fn link(file: &File, message: &super::header::Message) -> Result<Member, Error> {
    let mut fields = fields(message, file.sizes, Rule::Hdf5Group);
    let version = fields.u8()?;
    let flags = fields.u8()?;
    if version != 1 {
        return Err(broken("the version of a link is unknown", message.at));
    }
    let kind = if flags & 8 != 0 { fields.u8()? } else { 0 };
    fields.take(if flags & 4 != 0 { 8 } else { 0 })?;
    fields.take(if flags & 16 != 0 { 1 } else { 0 })?;
    let len_bytes = fields.number(1 << (flags & 3))?;
    let name = fields.take(len_bytes)?.to_vec();
    let target = match kind {
        0 => {
            let header = file.offset(fields.address()?);
            Target::Header(header.ok_or_else(|| broken("a link leads nowhere", message.at))?)
        }
        1 => Target::Link("it is a symbolic link, which is not followed"),
        64 => Target::Link("it is a link to another file, which is not followed"),
        _ => Target::Link("it is a link of an unknown kind"),
    };
    Ok(Member { name, target })
}
