//! Fractal heaps, which contain the links and attributes of objects that have many of
//! them (docs/formats/hdf5.md 10).

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use super::file::{File, number, refuse, wrong_checksum};
use super::lookup3::lookup3;
use super::record_tree::{Records, record};
use crate::bytes::index;
use crate::container::foreign::random_access::{Read, Stop};
use crate::limits::HDF5_LEVELS;
use crate::{Error, Rule};

/// The signature of blocks with objects.
const DIRECT: &[u8; 4] = b"FHDB";
/// The signature of blocks with addresses of blocks.
const INDIRECT: &[u8; 4] = b"FHIB";

/// A heap. Its blocks are read when an object in them is read, and only once.
pub(super) struct FractalHeap<'a> {
    head: BlockHead,
    /// The length in bytes of the IDs of objects.
    pub id_bytes: u64,
    /// The length in bytes of the length of an object in its ID.
    len_bytes: u64,
    table: Table,
    root: Option<u64>,
    /// The number of rows of the first block with addresses; 0 if the first block has
    /// objects.
    root_rows: u64,
    /// The offset of the tree of large objects.
    huge_tree: Option<u64>,
    /// The offsets and lengths of large objects, by the number in their ID.
    huge: Option<BTreeMap<u64, (u64, u64)>>,
    /// The blocks by their offset in the file; `None` if a block is missing.
    blocks: BTreeMap<u64, Option<Cow<'a, [u8]>>>,
}

/// The lengths of the blocks of a heap. A block with addresses has rows of `width`
/// blocks. Blocks in the first two rows have `first_bytes`, and those in each later row
/// are twice as long as in the row before.
struct Table {
    width: u64,
    first_bytes: u64,
    /// The length of the longest blocks with objects. Longer blocks consist of blocks.
    direct_bytes: u64,
}

/// The fields that the blocks of a heap begin with: a signature, the version, the
/// address of the heap, and the offset of the block in the heap.
struct BlockHead {
    /// The offset of the heap in the file.
    heap_at: u64,
    rule: Rule,
    address_bytes: u64,
    /// The length in bytes of offsets in the heap.
    offset_bytes: u64,
    /// True if blocks with objects have a checksum after these fields.
    has_checksums: bool,
}

/// A block in the address space of a heap.
struct Place {
    /// The offset in the file.
    at: u64,
    /// The offset in the heap.
    start: u64,
    len_bytes: u64,
}

impl<'a> FractalHeap<'a> {
    /// Reads the head of the heap at `at`, whose damage breaks `rule`.
    pub fn read(file: &mut File<'_, 'a>, at: u64, rule: Rule) -> Read<Self> {
        let (address, length) = (file.sizes.address, file.sizes.length);
        let filters_bytes = file.number(at.saturating_add(7), 2)?;
        let more_bytes = match filters_bytes {
            0 => 0,
            _ => length + 4 + filters_bytes,
        };
        let head_bytes = 26 + 12 * length + 3 * address + more_bytes;
        let head = file.structure(at, head_bytes, b"FRHP", rule)?;
        if filters_bytes > 0 {
            let detail = "it has links or attributes in a heap with filters, which is not read";
            return Err(Error::unsupported(detail).at(at).into());
        }
        let mut fields = file.fields(&head, at, rule);
        fields.take(5)?;
        let id_bytes = fields.number(2)?;
        fields.take(2)?;
        let flags = fields.u8()?;
        let most_bytes = fields.number(4)?;
        fields.take(length)?;
        let huge_tree = file.offset(fields.address()?);
        fields.take(length + address + 8 * length)?;
        let table = Table {
            width: fields.number(2)?,
            first_bytes: fields.length()?,
            direct_bytes: fields.length()?,
        };
        let heap_bits = fields.number(2)?;
        fields.take(2)?;
        let root = file.offset(fields.address()?);
        let root_rows = fields.number(2)?;
        let lens = table
            .direct_bits()
            .filter(|_| (1..=64).contains(&heap_bits));
        let lens = lens.zip(most_bytes.checked_ilog2());
        let Some((direct_bits, most_bits)) = lens else {
            let detail = "the lengths of the blocks of a heap are unknown";
            return Err(refuse(rule, detail, at).into());
        };
        let head = BlockHead {
            heap_at: at,
            rule,
            address_bytes: address,
            offset_bytes: heap_bits.div_ceil(8),
            has_checksums: flags & 2 != 0,
        };
        Ok(Self {
            head,
            id_bytes,
            len_bytes: u64::from(direct_bits.div_ceil(8).min(most_bits / 8 + 1)),
            table,
            root,
            root_rows,
            huge_tree,
            huge: None,
            blocks: BTreeMap::new(),
        })
    }

    fn broken(&self, detail: &'static str) -> Stop {
        refuse(self.head.rule, detail, self.head.heap_at).into()
    }

    /// Returns the object with this ID, and its offset in the file.
    pub fn object(&mut self, file: &mut File<'_, 'a>, id: &[u8]) -> Read<(Cow<'_, [u8]>, u64)> {
        if id.len() as u64 != self.id_bytes {
            return Err(self.broken("an ID of an object of a heap has another length"));
        }
        let mut fields = file.fields(id, self.head.heap_at, self.head.rule);
        match fields.u8()? >> 4 {
            0 => {
                let offset = fields.number(self.head.offset_bytes)?;
                let len_bytes = fields.number(self.len_bytes)?;
                self.managed(file, offset, len_bytes)
            }
            1 => {
                let key_bytes = file.sizes.length.min(self.id_bytes - 1);
                let key = fields.number(key_bytes)?;
                self.huge(file, key)
            }
            // Objects in their IDs are shorter than a link or an attribute.
            _ => Err(self.broken("an object of a heap is stored in an unknown way")),
        }
    }

    /// Returns a large object, which is outside of the blocks.
    fn huge(&mut self, file: &mut File<'_, 'a>, key: u64) -> Read<(Cow<'_, [u8]>, u64)> {
        if self.huge.is_none() {
            let mut huge = BTreeMap::new();
            if let Some(tree) = self.huge_tree {
                let rule = self.head.rule;
                let records = Records::read(file, tree, &[record::HUGE_OBJECT], rule)?;
                for record in records.iter() {
                    let mut fields = file.fields(record, tree, rule);
                    let start = file.offset(fields.address()?).unwrap_or(u64::MAX);
                    let len_bytes = fields.length()?;
                    huge.insert(fields.length()?, (start, len_bytes));
                }
            }
            self.huge = Some(huge);
        }
        let found = self.huge.as_ref().and_then(|huge| huge.get(&key));
        let Some(&(start, len_bytes)) = found else {
            return Err(self.broken("a heap does not have an object that is referred to"));
        };
        Ok((file.bytes(start, len_bytes)?, start))
    }

    /// Returns the object at an offset of the heap.
    fn managed(
        &mut self,
        file: &mut File<'_, 'a>,
        offset: u64,
        len_bytes: u64,
    ) -> Read<(Cow<'_, [u8]>, u64)> {
        let place = self.place(file, offset)?;
        let rule = self.head.rule;
        let head_bytes = self.head.len_bytes() + if self.head.has_checksums { 4 } else { 0 };
        let block = self.block(file, &place, DIRECT)?;
        let skipped = offset - place.start;
        if skipped < head_bytes {
            let detail = "an object of a heap is in the head of a block";
            return Err(refuse(rule, detail, place.at).into());
        }
        let mut fields = file.fields(block, place.at, rule);
        fields.take(skipped)?;
        let at = fields.at;
        Ok((fields.take(len_bytes)?.into(), at))
    }

    /// Finds the block that contains the byte at an offset of the heap.
    fn place(&mut self, file: &mut File<'_, 'a>, offset: u64) -> Read<Place> {
        let outside = "a heap does not have a block at the offset of an object";
        let mut rows = self.root_rows;
        let mut place = Place {
            at: self.root.ok_or_else(|| self.broken(outside))?,
            start: 0,
            len_bytes: self.table.first_bytes,
        };
        if rows == 0 {
            return match offset < place.len_bytes {
                true => Ok(place),
                false => Err(self.broken(outside)),
            };
        }
        let (address_bytes, rule) = (self.head.address_bytes, self.head.rule);
        let head_bytes = self.head.len_bytes();
        for _ in 0..HDF5_LEVELS {
            let entry = self.table.entry(offset - place.start);
            if entry.row >= rows {
                return Err(self.broken(outside));
            }
            let skipped_bytes = (entry.row * self.table.width + entry.column) * address_bytes;
            place.len_bytes = head_bytes + rows * self.table.width * address_bytes + 4;
            let block = self.block(file, &place, INDIRECT)?;
            let mut fields = file.fields(block, place.at, rule);
            fields.take(head_bytes + skipped_bytes)?;
            let child = file.offset(fields.address()?);
            place = Place {
                at: child.ok_or_else(|| self.broken(outside))?,
                start: place.start + entry.start,
                len_bytes: entry.len_bytes,
            };
            if entry.len_bytes <= self.table.direct_bytes {
                return Ok(place);
            }
            let child_rows = self.table.rows(entry.len_bytes);
            rows = child_rows.ok_or_else(|| self.broken(outside))?;
        }
        Err(self.broken("the blocks of a heap contain each other too deeply"))
    }

    /// Returns the bytes of a block.
    fn block(
        &mut self,
        file: &mut File<'_, 'a>,
        place: &Place,
        signature: &[u8; 4],
    ) -> Read<&[u8]> {
        let block = match self.blocks.entry(place.at) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(match self.head.read(file, place, signature) {
                    Ok(bytes) => Some(bytes),
                    Err(Stop::Missing) => None,
                    Err(refused) => return Err(refused),
                })
            }
        };
        let Some(block) = block else {
            return Err(Stop::Missing);
        };
        self.head.check(file, block, place, signature)?;
        Ok(block)
    }
}

impl BlockHead {
    fn len_bytes(&self) -> u64 {
        5 + self.address_bytes + self.offset_bytes
    }

    /// Reads the block at `place`, and compares it with its checksum.
    fn read<'a>(
        &self,
        file: &mut File<'_, 'a>,
        place: &Place,
        signature: &[u8; 4],
    ) -> Read<Cow<'a, [u8]>> {
        if signature == INDIRECT {
            return file.structure(place.at, place.len_bytes, signature, self.rule);
        }
        let block = file.bytes(place.at, place.len_bytes)?;
        if self.has_checksums {
            // The checksum is that of the block with zeros in its place.
            let mut content = block.to_vec();
            let start = index(self.len_bytes());
            let Some(field) = content.get_mut(start..start + 4) else {
                let detail = "a block of a heap is shorter than its head";
                return Err(refuse(self.rule, detail, place.at).into());
            };
            let stored = number(field);
            field.fill(0);
            if u64::from(lookup3(&content)) != stored {
                return Err(wrong_checksum(place.at).into());
            }
        }
        Ok(block)
    }

    /// Checks that a block belongs to the heap, at this place.
    fn check(
        &self,
        file: &File,
        block: &[u8],
        place: &Place,
        signature: &[u8; 4],
    ) -> Result<(), Error> {
        let mut fields = file.fields(block, place.at, self.rule);
        let is_known = fields.take(4)? == signature && fields.u8()? == 0;
        let heap_at = file.offset(fields.address()?);
        let start = fields.number(self.offset_bytes)?;
        let is_at_place = block.len() as u64 == place.len_bytes && start == place.start;
        if is_known && is_at_place && heap_at == Some(self.heap_at) {
            return Ok(());
        }
        let detail = "a block of a heap is not the one that is expected at its address";
        Err(refuse(self.rule, detail, place.at))
    }
}

/// The entry of a block with addresses.
struct TableEntry {
    row: u64,
    column: u64,
    /// The offset of the entry's block from the start of the block with addresses, in
    /// the heap.
    start: u64,
    len_bytes: u64,
}

impl Table {
    /// Returns the number of bits of the length of the longest blocks with objects;
    /// `None` if lengths are not powers of two, or too large.
    fn direct_bits(&self) -> Option<u32> {
        let are_powers = [self.width, self.first_bytes, self.direct_bytes]
            .iter()
            .all(|len| len.is_power_of_two());
        let is_ordered = self.first_bytes <= self.direct_bytes;
        self.first_bytes
            .checked_mul(self.width)
            .filter(|_| are_powers && is_ordered)?;
        self.direct_bytes.checked_ilog2()
    }

    /// Returns the length in bytes of all blocks in the first row.
    fn row_bytes(&self) -> u64 {
        self.first_bytes * self.width
    }

    /// Returns the entry with the block that contains a byte.
    fn entry(&self, offset: u64) -> TableEntry {
        let row_bytes = self.row_bytes();
        // The blocks of a later row are together as long as all rows before it.
        let (row, row_start, len_bytes) = match offset < row_bytes {
            true => (0, 0, self.first_bytes),
            false => {
                let doublings = offset.ilog2() - row_bytes.ilog2();
                let row = u64::from(doublings) + 1;
                (row, row_bytes << doublings, self.first_bytes << doublings)
            }
        };
        let column = (offset - row_start) / len_bytes;
        TableEntry {
            row,
            column,
            start: row_start + column * len_bytes,
            len_bytes,
        }
    }

    /// Returns the number of rows of a block of blocks, which have `len_bytes` together.
    fn rows(&self, len_bytes: u64) -> Option<u64> {
        let doublings = len_bytes.ilog2().checked_sub(self.row_bytes().ilog2())?;
        Some(u64::from(doublings) + 1)
    }
}
