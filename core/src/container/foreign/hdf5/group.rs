//! The members of a group: old groups with a tree and a heap of names, and new
//! groups with links in their header or in a fractal heap (docs/formats/hdf5.md 3).

use alloc::vec::Vec;

use super::datatype::fields;
use super::file::{Fields, File, refuse, unless_refused};
use super::fractal_heap::FractalHeap;
use super::header::{Header, kind};
use super::record_tree::{Records, record};
use crate::container::foreign::random_access::{Read, Stop};
use crate::limits::{HDF5_OBJECTS, JOINED_NAMES_LEN_BYTES};
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
    /// The path of the object, from the root if it begins with `/`, or else from the
    /// group of the link.
    Path(Vec<u8>),
    /// A link that is not followed, and why.
    Link(&'static str),
}

/// The members of a group.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// The members in the order of the group: by name in an old group, and by creation
    /// or by name in a new one.
    pub all: Vec<Member>,
    /// The positions of the members, sorted by name.
    by_name: Vec<usize>,
}

/// The number of members, and of bytes of their names, that may still be read from the
/// groups of a file.
#[derive(Debug)]
pub(super) struct MembersLeft {
    count: usize,
    names_bytes: usize,
}

impl MembersLeft {
    pub const ALL: Self = Self {
        count: HDF5_OBJECTS,
        names_bytes: JOINED_NAMES_LEN_BYTES,
    };
}

fn broken(detail: &'static str, at: u64) -> Error {
    refuse(Rule::Hdf5Group, detail, at)
}

impl Members {
    /// Returns the members of the object with this header; `None` if it is no
    /// group.
    pub fn of(file: &mut File, header: &Header, left: &mut MembersLeft) -> Read<Option<Self>> {
        let mut members = Self::default();
        let is_group = match header.find(kind::SYMBOL_TABLE) {
            Some(message) => {
                let fields = fields(message, file.sizes, Rule::Hdf5Group);
                members.symbol_table(file, fields, left)?;
                true
            }
            None => members.links(file, header, left)?,
        };
        let all = &members.all;
        let mut by_name: Vec<usize> = (0..all.len()).collect();
        by_name.sort_by(|a, b| all[*a].name.cmp(&all[*b].name));
        members.by_name = by_name;
        Ok(is_group.then_some(members))
    }

    /// Returns the target of the first member with this name.
    pub fn find(&self, name: &[u8]) -> Option<&Target> {
        let name_of = |position: &usize| self.all.get(*position).map(|member| &member.name[..]);
        let before = |position: &usize| name_of(position) < Some(name);
        let found = self.by_name.get(self.by_name.partition_point(before))?;
        let member = self.all.get(*found)?;
        (member.name == name).then_some(&member.target)
    }

    fn add(&mut self, member: Member, left: &mut MembersLeft, at: u64) -> Result<(), Error> {
        let target_bytes = match &member.target {
            Target::Path(path) => path.len(),
            Target::Header(_) | Target::Link(_) => 0,
        };
        let names_bytes = member.name.len().saturating_add(target_bytes);
        let count = left.count.checked_sub(1);
        let Some((count, names_bytes)) = count.zip(left.names_bytes.checked_sub(names_bytes))
        else {
            let detail = "the groups have too many members, or their names are too long";
            return Err(Error::limit(detail).at(at));
        };
        *left = MembersLeft { count, names_bytes };
        self.all.push(member);
        Ok(())
    }

    /// Adds the links of a new group. Returns whether the object is one.
    fn links(&mut self, file: &mut File, header: &Header, left: &mut MembersLeft) -> Read<bool> {
        let mut is_group = false;
        for message in &header.messages {
            let mut fields = fields(message, file.sizes, Rule::Hdf5Group);
            match message.kind {
                kind::LINK => self.add(link(file, fields)?, left, message.at)?,
                kind::LINK_INFO => {
                    fields.take(1)?;
                    let flags = fields.u8()?;
                    fields.take(if flags & 1 != 0 { 8 } else { 0 })?;
                    let heap = file.offset(fields.address()?);
                    let by_name = file.offset(fields.address()?);
                    let by_order = match flags & 2 {
                        0 => None,
                        _ => file.offset(fields.address()?),
                    };
                    if let Some(heap) = heap {
                        let tree = by_order.or(by_name);
                        let tree = tree.ok_or_else(|| broken("a group has no tree", message.at))?;
                        self.heap_links(file, heap, tree, left)?;
                    }
                }
                _ => continue,
            }
            is_group = true;
        }
        Ok(is_group)
    }

    /// Adds the links in a heap, whose IDs are in a tree by name or by order of
    /// creation.
    fn heap_links(
        &mut self,
        file: &mut File,
        heap: u64,
        tree: u64,
        left: &mut MembersLeft,
    ) -> Read<()> {
        let mut heap = FractalHeap::read(file, heap, Rule::Hdf5Group)?;
        let kinds = [record::LINK_BY_NAME, record::LINK_BY_ORDER];
        let records = Records::read(file, tree, &kinds, Rule::Hdf5Group)?;
        // A hash of the name or the number of the link precedes its ID.
        let key_bytes = match records.kind {
            record::LINK_BY_NAME => 4,
            _ => 8,
        };
        for record in records.iter() {
            let id = record.get(key_bytes..).unwrap_or_default();
            let (content, at) = match heap.object(file, id) {
                Ok(found) => found,
                // All missing bytes are requested at once.
                Err(Stop::Missing) => continue,
                Err(refused) => return Err(refused),
            };
            let link = link(file, file.fields(&content, at, Rule::Hdf5Group))?;
            self.add(link, left, at)?;
        }
        if records.kind == record::LINK_BY_NAME {
            self.all.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Ok(())
    }

    /// Adds the members of an old group.
    fn symbol_table(
        &mut self,
        file: &mut File,
        mut message: Fields,
        left: &mut MembersLeft,
    ) -> Read<()> {
        let at = message.at;
        let tree = file.offset(message.address()?);
        let heap = file.offset(message.address()?);
        let (Some(tree), Some(heap)) = (tree, heap) else {
            return Err(broken("a group has no tree or no heap", at).into());
        };
        let heap = NameHeap::read(file, heap)?;
        let mut table = SymbolTable {
            file,
            heap,
            members: self,
            left,
            nodes: 0,
        };
        table.tree(tree, None)
    }
}

/// An old group, while its members are being found.
struct SymbolTable<'w, 'f, 'a> {
    file: &'w mut File<'f, 'a>,
    heap: NameHeap<'a>,
    members: &'w mut Members,
    left: &'w mut MembersLeft,
    nodes: usize,
}

impl SymbolTable<'_, '_, '_> {
    /// Adds the members in a node of the tree at `at`, whose level has to be
    /// `level` if that is known. Levels decrease, so the walk ends.
    fn tree(&mut self, at: u64, level: Option<u8>) -> Read<()> {
        self.nodes += 1;
        if self.nodes > HDF5_OBJECTS {
            return Err(Error::limit("a group has too many nodes").at(at).into());
        }
        let file = &mut *self.file;
        file.expect(at, b"TREE", Rule::Hdf5Group)?;
        let [kind, own_level, low, high] = file.access.array(at + 4)?;
        if kind != 0 || level.is_some_and(|level| level != own_level) {
            return Err(broken("a node of a group's tree has another kind or level", at).into());
        }
        let count = u64::from(u16::from_le_bytes([low, high]));
        let (address, length) = (file.sizes.address, file.sizes.length);
        let start = at + 8 + 2 * address;
        for number in 0..count {
            let entry = start + length + number * (length + address);
            let child = self.file.address(entry)?;
            let child = child.ok_or_else(|| broken("a node has an empty child", at))?;
            unless_refused(match own_level {
                0 => self.symbols(child),
                _ => self.tree(child, Some(own_level - 1)),
            })?;
        }
        Ok(())
    }

    fn symbols(&mut self, at: u64) -> Read<()> {
        let file = &mut *self.file;
        file.expect(at, b"SNOD", Rule::Hdf5Group)?;
        let [_, _, low, high] = file.access.array(at + 4)?;
        let count = u64::from(u16::from_le_bytes([low, high]));
        let address = file.sizes.address;
        let step = 2 * address + 24;
        for number in 0..count {
            let entry = at + 8 + number * step;
            let name_at = file.number(entry, address)?;
            let header = file.address(entry + address)?;
            let cache = file.number(entry + 2 * address, 4)?;
            let target = match (cache, header) {
                (2, _) => {
                    let path_at = file.number(entry + 2 * address + 8, 4)?;
                    Target::Path(self.heap.name(path_at, entry)?.to_vec())
                }
                (_, Some(header)) => Target::Header(header),
                (_, None) => return Err(broken("a member has no header", entry).into()),
            };
            let name = self.heap.name(name_at, entry)?.to_vec();
            self.members.add(Member { name, target }, self.left, at)?;
        }
        Ok(())
    }
}

/// The names of an old group.
struct NameHeap<'a> {
    names: alloc::borrow::Cow<'a, [u8]>,
}

impl<'a> NameHeap<'a> {
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
fn link(file: &File, mut fields: Fields) -> Result<Member, Error> {
    let at = fields.at;
    let version = fields.u8()?;
    let flags = fields.u8()?;
    if version != 1 {
        return Err(broken("the version of a link is unknown", at));
    }
    let kind = if flags & 8 != 0 { fields.u8()? } else { 0 };
    fields.take(if flags & 4 != 0 { 8 } else { 0 })?;
    fields.take(if flags & 16 != 0 { 1 } else { 0 })?;
    let len_bytes = fields.number(1 << (flags & 3))?;
    let name = fields.take(len_bytes)?.to_vec();
    let target = match kind {
        0 => {
            let header = file.offset(fields.address()?);
            Target::Header(header.ok_or_else(|| broken("a link leads nowhere", at))?)
        }
        1 => {
            let len_bytes = fields.number(2)?;
            Target::Path(fields.take(len_bytes)?.to_vec())
        }
        64 => Target::Link("it is a link to another file, which is not followed"),
        _ => Target::Link("it is a link of an unknown kind"),
    };
    Ok(Member { name, target })
}
