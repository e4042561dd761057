//! Arrays of the chunks of a dataset: a fixed array for a dataset with greatest sizes,
//! and an extensible one for a dataset that grows in one dimension
//! (docs/formats/hdf5.md 11).

use alloc::borrow::Cow;

use super::file::{Fields, File, refuse, unless_refused};
use super::grid::{Grid, mask_of};
use crate::bytes::index;
use crate::container::foreign::random_access::{Read, Stop};
use crate::{Error, Rule};

/// The length in bytes of a checksum.
const CHECKSUM_BYTES: u64 = 4;

fn broken(detail: &'static str, at: u64) -> Error {
    refuse(Rule::Hdf5Chunk, detail, at)
}

/// The properties of an array that its head states.
struct Array {
    at: u64,
    /// 1 if elements have a length and a mask of filters, and 0 if they are addresses.
    client: u8,
    /// The length of an element in bytes.
    width: u64,
    /// The length in bytes of the length of a chunk, with filters.
    size_bytes: Option<u64>,
    /// The length in bytes of the place of a block, in blocks that state it.
    offset_bytes: u64,
    /// The largest number of elements that have one checksum.
    page: u64,
}

/// The pages of a block that have been written: a bit for each page, from a number of
/// bits on, the highest bit of a byte first.
#[derive(Clone, Copy)]
struct Pages<'b> {
    bitmap: &'b [u8],
    first: u64,
}

impl Pages<'_> {
    fn contains(self, page: u64) -> bool {
        let bit = self.first.saturating_add(page);
        let byte = usize::try_from(bit / 8).ok();
        let byte = byte.and_then(|byte| self.bitmap.get(byte));
        byte.is_some_and(|byte| byte << (bit % 8) & 0x80 != 0)
    }
}

impl Array {
    /// Parses the client and the length of an element in the head at `at`.
    fn parse(fields: &mut Fields, at: u64) -> Result<Self, Error> {
        let client = fields.u8()?;
        let width = u64::from(fields.u8()?);
        let size_bytes = width.checked_sub(fields.sizes.address);
        let size_bytes = match (client, size_bytes) {
            (0, Some(0)) => None,
            (1, Some(rest @ 5..=12)) => Some(rest - 4),
            _ => {
                let detail = "the elements of an array of chunks are of an unknown type";
                return Err(broken(detail, at));
            }
        };
        Ok(Self {
            at,
            client,
            width,
            size_bytes,
            offset_bytes: 0,
            page: u64::MAX,
        })
    }

    /// Returns the bytes of a block of the array, whose checksum is at its end.
    fn block<'a>(
        &self,
        file: &mut File<'_, 'a>,
        at: u64,
        len_bytes: u64,
        signature: &[u8; 4],
    ) -> Read<Cow<'a, [u8]>> {
        let bytes = file.structure(at, len_bytes, signature, Rule::Hdf5Chunk)?;
        let mut fields = file.fields(&bytes, at, Rule::Hdf5Chunk);
        fields.take(5)?;
        let client = fields.u8()?;
        if client != self.client || file.offset(fields.address()?) != Some(self.at) {
            return Err(broken("a block belongs to another array of chunks", at).into());
        }
        Ok(bytes)
    }

    /// Returns the length of the fields that blocks begin with: signature, version,
    /// client, the address of the head, and the place of the block.
    fn block_head_bytes(&self, file: &File) -> u64 {
        6 + file.sizes.address + self.offset_bytes
    }
}

impl Grid<'_> {
    /// Adds the chunks that elements in `bytes` refer to, of which the first has the
    /// number `first`.
    fn elements(
        &mut self,
        file: &File,
        array: &Array,
        first: u64,
        bytes: &[u8],
        at: u64,
    ) -> Read<()> {
        let elements = bytes.chunks_exact(index(array.width));
        for (number, element) in (first..).zip(elements) {
            let mut fields = file.fields(element, at, Rule::Hdf5Chunk);
            let Some(start) = file.offset(fields.address()?) else {
                continue;
            };
            let (stored, mask) = match array.size_bytes {
                Some(size_bytes) => (fields.number(size_bytes)?, fields.number(4)?),
                None => (self.chunk_bytes, 0),
            };
            self.numbered(file, number, start, stored, mask_of(mask))?;
        }
        Ok(())
    }

    /// Adds the chunks of `count` elements in pages from `at`, each with a checksum.
    fn pages(
        &mut self,
        file: &mut File,
        array: &Array,
        at: u64,
        first: u64,
        count: u64,
        pages: Pages,
    ) -> Read<()> {
        let page_bytes = array.page * array.width + CHECKSUM_BYTES;
        let written = (0..count.div_ceil(array.page)).filter(|page| pages.contains(*page));
        for page in written {
            let skipped = page * array.page;
            let elements_bytes = array.page.min(count - skipped) * array.width;
            let at = at.saturating_add(page * page_bytes);
            let read = file.checked(at, elements_bytes + CHECKSUM_BYTES, Rule::Hdf5Chunk);
            let bytes = match read {
                Ok(bytes) => bytes,
                // All missing bytes are requested at once.
                Err(Stop::Missing) => continue,
                Err(refused) => return Err(refused),
            };
            let elements = file
                .fields(&bytes, at, Rule::Hdf5Chunk)
                .take(elements_bytes)?;
            self.elements(file, array, first + skipped, elements, at)?;
        }
        Ok(())
    }

    /// Adds the chunks of the fixed array with its head at `at`.
    pub fn fixed_array(&mut self, file: &mut File, at: u64) -> Read<()> {
        let (address, length) = (file.sizes.address, file.sizes.length);
        let head_bytes = 8 + length + address + CHECKSUM_BYTES;
        let head = file.structure(at, head_bytes, b"FAHD", Rule::Hdf5Chunk)?;
        let mut fields = file.fields(&head, at, Rule::Hdf5Chunk);
        fields.take(5)?;
        let mut array = Array::parse(&mut fields, at)?;
        array.page = page_of(fields.u8()?, at)?;
        let count = fields.length()?;
        let Some(block) = file.offset(fields.address()?) else {
            return Ok(());
        };
        if count > self.chunk_count(at)? {
            return Err(broken("an array has more chunks than the dataset", at).into());
        }
        let is_paged = count > array.page;
        let content_bytes = match is_paged {
            true => count.div_ceil(array.page).div_ceil(8),
            false => count * array.width,
        };
        let head_bytes = array.block_head_bytes(file);
        let block_bytes = head_bytes + content_bytes + CHECKSUM_BYTES;
        let bytes = array.block(file, block, block_bytes, b"FADB")?;
        let mut fields = file.fields(&bytes, block, Rule::Hdf5Chunk);
        fields.take(head_bytes)?;
        let content = fields.take(content_bytes)?;
        if !is_paged {
            return self.elements(file, &array, 0, content, block);
        }
        let pages = Pages {
            bitmap: content,
            first: 0,
        };
        self.pages(file, &array, block + block_bytes, 0, count, pages)
    }

    /// Adds the chunks of the extensible array with its head at `at`.
    pub fn extensible_array(&mut self, file: &mut File, at: u64) -> Read<()> {
        let (address, length) = (file.sizes.address, file.sizes.length);
        let head_bytes = 12 + 6 * length + address + CHECKSUM_BYTES;
        let head = file.structure(at, head_bytes, b"EAHD", Rule::Hdf5Chunk)?;
        let mut fields = file.fields(&head, at, Rule::Hdf5Chunk);
        fields.take(5)?;
        let mut array = Array::parse(&mut fields, at)?;
        let bits = fields.u8()?;
        let own_elements = u64::from(fields.u8()?);
        let least_elements = u64::from(fields.u8()?);
        let least_blocks = u64::from(fields.u8()?);
        array.page = page_of(fields.u8()?, at)?;
        array.offset_bytes = u64::from(bits).div_ceil(8);
        fields.take(6 * length)?;
        let Some(start) = file.offset(fields.address()?) else {
            return Ok(());
        };
        let are_powers = least_elements.is_power_of_two() && least_blocks.is_power_of_two();
        let groups = match are_powers && bits < 64 {
            true => u32::from(bits).checked_sub(least_elements.ilog2()),
            false => None,
        };
        let Some(groups) = groups.filter(|_| self.has_one_endless_dimension()) else {
            let detail = "an array of chunks has other lengths, or does not fit the dataset";
            return Err(broken(detail, at).into());
        };
        // The blocks of the first groups are listed in the index.
        let groups = groups + 1;
        let own_groups = groups.min(2 * least_blocks.ilog2());
        let own_blocks: u64 = (0..own_groups).map(blocks_of).sum();
        let addresses = own_blocks + u64::from(groups - own_groups);
        let head_bytes = 6 + address;
        let elements_bytes = own_elements * array.width;
        let index_bytes = head_bytes + elements_bytes + addresses * address + CHECKSUM_BYTES;
        let bytes = array.block(file, start, index_bytes, b"EAIB")?;
        let mut fields = file.fields(&bytes, start, Rule::Hdf5Chunk);
        fields.take(head_bytes)?;
        let elements = fields.take(elements_bytes)?;
        self.elements(file, &array, 0, elements, start)?;
        let mut first = own_elements;
        for group in 0..groups {
            let blocks = Blocks {
                count: blocks_of(group),
                elements: least_elements << group.div_ceil(2),
                first,
            };
            first = first.saturating_add(blocks.count.saturating_mul(blocks.elements));
            if group < own_groups {
                self.blocks(file, &array, &blocks, &mut fields, None)?;
            } else if let Some(at) = file.offset(fields.address()?) {
                unless_refused(self.secondary_block(file, &array, &blocks, at))?;
            }
        }
        Ok(())
    }

    /// Adds the chunks of a group of blocks that are listed in a block at `at`.
    fn secondary_block(
        &mut self,
        file: &mut File,
        array: &Array,
        blocks: &Blocks,
        at: u64,
    ) -> Read<()> {
        let pages = blocks.pages(array);
        let head_bytes = array.block_head_bytes(file);
        let bitmap_bytes = blocks.count.saturating_mul(pages.div_ceil(8));
        let rest_bytes = blocks.count * file.sizes.address + CHECKSUM_BYTES;
        let block_bytes = bitmap_bytes.saturating_add(head_bytes + rest_bytes);
        let bytes = array.block(file, at, block_bytes, b"EASB")?;
        let mut fields = file.fields(&bytes, at, Rule::Hdf5Chunk);
        fields.take(head_bytes)?;
        let bitmap = fields.take(bitmap_bytes)?;
        self.blocks(file, array, blocks, &mut fields, Some(bitmap))
    }

    /// Adds the chunks of a group of blocks, whose addresses are the next fields.
    /// `bitmap` states which of their pages have been written.
    fn blocks(
        &mut self,
        file: &mut File,
        array: &Array,
        blocks: &Blocks,
        fields: &mut Fields,
        bitmap: Option<&[u8]>,
    ) -> Read<()> {
        let pages = blocks.pages(array);
        for number in 0..blocks.count {
            let Some(at) = file.offset(fields.address()?) else {
                continue;
            };
            let skipped = number.saturating_mul(blocks.elements);
            let first = blocks.first.saturating_add(skipped);
            let read = match (pages, bitmap) {
                (0, _) => self.data_block(file, array, at, first, blocks.elements),
                (_, Some(bitmap)) => {
                    let first_page = number.saturating_mul(pages);
                    let written = Pages {
                        bitmap,
                        first: first_page,
                    };
                    self.paged_block(file, array, at, first, blocks.elements, written)
                }
                (_, None) => {
                    let detail = "the first blocks of an array of chunks have pages";
                    Err(broken(detail, at).into())
                }
            };
            unless_refused(read)?;
        }
        Ok(())
    }

    fn data_block(
        &mut self,
        file: &mut File,
        array: &Array,
        at: u64,
        first: u64,
        count: u64,
    ) -> Read<()> {
        let head_bytes = array.block_head_bytes(file);
        let elements_bytes = count * array.width;
        let block_bytes = head_bytes + elements_bytes + CHECKSUM_BYTES;
        let bytes = array.block(file, at, block_bytes, b"EADB")?;
        let mut fields = file.fields(&bytes, at, Rule::Hdf5Chunk);
        fields.take(head_bytes)?;
        self.elements(file, array, first, fields.take(elements_bytes)?, at)
    }

    fn paged_block(
        &mut self,
        file: &mut File,
        array: &Array,
        at: u64,
        first: u64,
        count: u64,
        written: Pages,
    ) -> Read<()> {
        let block_bytes = array.block_head_bytes(file) + CHECKSUM_BYTES;
        array.block(file, at, block_bytes, b"EADB")?;
        self.pages(file, array, at + block_bytes, first, count, written)
    }
}

/// A group of blocks with equal numbers of elements.
struct Blocks {
    count: u64,
    /// The number of elements of a block.
    elements: u64,
    /// The number of the first element.
    first: u64,
}

impl Blocks {
    /// Returns the number of pages of a block; 0 if its elements are not in pages.
    fn pages(&self, array: &Array) -> u64 {
        match self.elements > array.page {
            true => self.elements / array.page,
            false => 0,
        }
    }
}

/// Returns the number of blocks of a group: 1, 1, 2, 2, 4, 4 and so on.
fn blocks_of(group: u32) -> u64 {
    1 << (group / 2)
}

/// Returns the number of elements of a page, by its number of bits.
fn page_of(bits: u8, at: u64) -> Result<u64, Error> {
    match bits {
        0..32 => Ok(1 << bits),
        _ => Err(broken("the pages of an array of chunks are too long", at)),
    }
}
