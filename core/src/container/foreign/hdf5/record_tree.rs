//! Trees of version 2. Their records are links of a group, attributes, or chunks of a
//! dataset (docs/formats/hdf5.md 9).

use alloc::vec::Vec;

use super::file::{File, refuse};
use crate::bytes::index;
use crate::container::foreign::random_access::{Read, Stop};
use crate::limits::{HDF5_LEVELS, HDF5_OBJECTS};
use crate::{Error, Rule};

/// The types of the records that are read.
pub(super) mod record {
    /// A large object of a heap.
    pub const HUGE_OBJECT: u8 = 1;
    pub const LINK_BY_NAME: u8 = 5;
    pub const LINK_BY_ORDER: u8 = 6;
    pub const ATTRIBUTE_BY_NAME: u8 = 8;
    pub const CHUNK: u8 = 10;
    pub const FILTERED_CHUNK: u8 = 11;
}

/// The length in bytes of the signature, version, type and checksum of a node.
const NODE_BYTES: u64 = 10;

/// The records of a tree, in the order of their keys.
#[derive(Debug)]
pub(super) struct Records {
    pub kind: u8,
    pub record_bytes: usize,
    bytes: Vec<u8>,
}

impl Records {
    /// Reads the tree at `at`, whose records have one of the types `kinds`. Nodes that
    /// have not been fetched are noted as missing and left out.
    ///
    /// # Errors
    /// `rule`, if the tree is malformed.
    pub fn read(file: &mut File, at: u64, kinds: &[u8], rule: Rule) -> Read<Self> {
        let len_bytes = 22 + file.sizes.address + file.sizes.length;
        let head = file.structure(at, len_bytes, b"BTHD", rule)?;
        let mut fields = file.fields(&head, at, rule);
        fields.take(5)?;
        let kind = fields.u8()?;
        let node_bytes = fields.number(4)?;
        let record_bytes = fields.number(2)?;
        let depth = index(fields.number(2)?);
        fields.take(2)?;
        let root = fields.address()?;
        let root_count = fields.number(2)?;
        let total = fields.length()?;
        if !kinds.contains(&kind) {
            let detail = "the records of a tree have another type";
            return Err(refuse(rule, detail, at).into());
        }
        let sizes = NodeSizes::new(node_bytes, record_bytes, depth, file.sizes.address);
        let sizes = sizes.ok_or_else(|| {
            let detail = "the nodes of a tree are too short for its records, or it is too deep";
            refuse(rule, detail, at)
        })?;
        let mut walk = Walk {
            file,
            kind,
            rule,
            sizes,
            nodes: 0,
            is_incomplete: false,
            bytes: Vec::new(),
        };
        if let Some(root) = walk.file.offset(root) {
            walk.child(root, depth, root_count)?;
        }
        let is_incomplete = walk.is_incomplete;
        let records = Self {
            kind,
            record_bytes: index(record_bytes),
            bytes: walk.bytes,
        };
        if !is_incomplete && records.iter().len() as u64 != total {
            let detail = "a tree does not have the number of records that it states";
            return Err(refuse(rule, detail, at).into());
        }
        Ok(records)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.record_bytes)
    }
}

/// The lengths that the fields of nodes have. They follow from the length of a node.
struct NodeSizes {
    record_bytes: u64,
    /// The length in bytes of the number of records of a child.
    count_bytes: u64,
    /// The levels of the tree, the leaves first.
    levels: Vec<Level>,
}

struct Level {
    /// The largest number of records of a node.
    most_records: u64,
    /// The length in bytes of the address of a child and of the numbers of its records.
    pointer_bytes: u64,
}

impl NodeSizes {
    fn new(node_bytes: u64, record_bytes: u64, depth: usize, address_bytes: u64) -> Option<Self> {
        if depth >= HDF5_LEVELS {
            return None;
        }
        let most_records = node_bytes
            .checked_sub(NODE_BYTES)?
            .checked_div(record_bytes)?;
        let count_bytes = number_bytes(most_records)?;
        let mut levels = Vec::new();
        levels.push(Level {
            most_records,
            pointer_bytes: 0,
        });
        // The number of records in a node and below it, which leaves do not state.
        let (mut total, mut total_bytes) = (most_records, 0);
        for _ in 0..depth {
            let pointer_bytes = address_bytes + count_bytes + total_bytes;
            let used_bytes = NODE_BYTES + pointer_bytes;
            let most_records = node_bytes.checked_sub(used_bytes)? / (record_bytes + pointer_bytes);
            total = total
                .saturating_mul(most_records + 1)
                .saturating_add(most_records);
            total_bytes = number_bytes(total)?;
            levels.push(Level {
                most_records,
                pointer_bytes,
            });
        }
        Some(Self {
            record_bytes,
            count_bytes,
            levels,
        })
    }
}

/// Returns how many bytes numbers up to `most` need; `None` for 0.
fn number_bytes(most: u64) -> Option<u64> {
    most.checked_ilog2().map(|log2| u64::from(log2) / 8 + 1)
}

/// The records that have been found so far.
struct Walk<'w, 'f, 'a> {
    file: &'w mut File<'f, 'a>,
    kind: u8,
    rule: Rule,
    sizes: NodeSizes,
    nodes: usize,
    is_incomplete: bool,
    bytes: Vec<u8>,
}

impl Walk<'_, '_, '_> {
    fn child(&mut self, at: u64, level: usize, count: u64) -> Read<()> {
        match self.node(at, level, count) {
            // All missing bytes are requested at once.
            Err(Stop::Missing) => self.is_incomplete = true,
            read => return read,
        }
        Ok(())
    }

    /// Adds the `count` records in the node at `at` and those below it. Levels
    /// decrease, so the walk ends.
    fn node(&mut self, at: u64, level: usize, count: u64) -> Read<()> {
        let rule = self.rule;
        let broken = |detail: &'static str| refuse(rule, detail, at);
        self.nodes += 1;
        if self.nodes > HDF5_OBJECTS {
            return Err(Error::limit("a tree has too many nodes").at(at).into());
        }
        let known = self.sizes.levels.get(level);
        let known = known.filter(|known| count <= known.most_records);
        let Some(&Level { pointer_bytes, .. }) = known else {
            return Err(broken("a node of a tree has more records than it can contain").into());
        };
        let below = level.checked_sub(1);
        let records_bytes = count * self.sizes.record_bytes;
        let (signature, pointers_bytes) = match below {
            Some(_) => (b"BTIN", (count + 1) * pointer_bytes),
            None => (b"BTLF", 0),
        };
        let len_bytes = NODE_BYTES + records_bytes + pointers_bytes;
        let node = self.file.structure(at, len_bytes, signature, rule)?;
        let mut fields = self.file.fields(&node, at, rule);
        fields.take(5)?;
        if fields.u8()? != self.kind {
            return Err(broken("a node of a tree has records of another type").into());
        }
        let records = fields.take(records_bytes)?;
        let Some(below) = below else {
            self.bytes.extend_from_slice(records);
            return Ok(());
        };
        let mut records = records.chunks_exact(index(self.sizes.record_bytes));
        for _ in 0..=count {
            let child = self.file.offset(fields.address()?);
            let child = child.ok_or_else(|| broken("a node has an empty child"))?;
            let count = fields.number(self.sizes.count_bytes)?;
            fields.take(pointer_bytes - self.sizes.count_bytes - fields.sizes.address)?;
            self.child(child, below, count)?;
            self.bytes
                .extend_from_slice(records.next().unwrap_or_default());
        }
        Ok(())
    }
}
