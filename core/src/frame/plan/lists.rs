//! The records of a plan. They have the layout of C structures in the byte order of the
//! host, and no padding, so that their lists can be copied to a device as they are.

use zerocopy::{Immutable, IntoBytes, KnownLayout};

/// The value of an index that refers to nothing.
pub const NONE: u32 = u32::MAX;

/// The buffer that a plane belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Space {
    /// The scratch buffer of [`DevicePlan::scratch_len_bytes`](super::DevicePlan).
    Scratch = 0,
    /// The output.
    Output = 1,
}

/// How the bytes of a segment are obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Coding {
    /// The source is copied.
    Stored = 0,
    /// The lowest byte of `parameter` is repeated.
    Run = 1,
    /// The source is a stream of packed symbols with `parameter` bits each, 1 to 7. As
    /// in the streams of zstd, the last symbol comes first and is in the lowest bits of
    /// the first byte, and the highest set bit of the last byte follows the first
    /// symbol.
    Flat = 2,
    /// The source is a Huffman-coded stream of zstd (RFC 8878, 4.2.2), and `parameter`
    /// is the index of its [`HuffmanTable`].
    Huffman = 3,
    /// The source is a stream of rANS symbols with four states
    /// (docs/formats/z4ai-frames.md 5), and `parameter` is the index of its
    /// [`RansTable`].
    Rans = 4,
    /// The bytes are decoded by the host, and `parameter` is the index of the
    /// [`HostSegment`].
    Host = 5,
}

/// How planes are joined into elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Join {
    /// Byte `j` of every element is in plane `j` (docs/formats/z4ai-frames.md 3.3).
    Bytes = 0,
    /// Planes of signs, exponents and mantissas of bfloat16 (3.4).
    Bfloat16 = 1,
    /// The same of float16.
    Float16 = 2,
    /// The same of float32.
    Float32 = 3,
    /// The first plane is a codebook of elements. The second one has the index of every
    /// element in it, of 1, 2 or 4 bytes; the lengths of the planes determine the size of
    /// an index and the number of entries (docs/formats/z4ai-frames.md 10). A device has
    /// to check that the codebook has an entry for every index.
    Palette = 4,
    /// The first plane is a bitmap of all elements, most significant bit first. The
    /// elements whose bits are set are in the second plane, or byte `j` of them is in
    /// plane `1 + j`, or there are none; the others are zero (9.1). A device has to check
    /// that as many bits are set as there are values, and none after the last element.
    Sparse = 5,
    /// The only plane has a symbol of one byte for every element. `parameter` is the index
    /// of the [`Lattice`] that determines the element (docs/formats/zxq1.md). A device has
    /// to check that all symbols have a value.
    Lattice = 6,
}

/// A tensor whose planes have to be joined. Its other planes are outputs themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct JoinedTensor {
    /// Offset of the first element in the output, in bytes.
    pub output: u64,
    /// Number of elements.
    pub elements: u64,
    /// Index of the first of its planes, which are consecutive.
    pub first_plane: u32,
    /// Number of planes.
    pub planes: u32,
    /// The number of a [`Join`].
    pub join: u32,
    /// Size of one element in bytes.
    pub item_bytes: u32,
    /// The parameter of the join; 0 for all but lattices.
    pub parameter: u32,
    /// Always 0.
    pub reserved: u32,
}

/// Maps the symbols of a matrix to elements: the value of a symbol is multiplied by the
/// scale of its group in single precision, and the product is rounded to the dtype of the
/// elements (docs/formats/zxq1.md 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Lattice {
    /// The value of every symbol, as the bits of a float32; a NaN for bytes that are no
    /// symbols.
    pub values: [u32; 256],
    /// Number of columns of the matrix.
    pub columns: u32,
    /// Number of rows of a group.
    pub group_rows: u32,
    /// Number of columns of a group.
    pub group_columns: u32,
    /// The dtype of the elements: 0 for bfloat16, 1 for float16, 2 for float32.
    pub dtype: u32,
    /// Index of the first of its groups, which are consecutive, row by row.
    pub first_group: u32,
    /// The only symbol whose value does not get the offset of its group; [`NONE`] if no
    /// value gets one.
    pub negative_zero: u32,
}

/// A group of elements of a lattice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LatticeGroup {
    /// The scale, as the bits of a float32.
    pub scale: u32,
    /// The number that is added to values.
    pub offset: i32,
}

/// A plane, whose segments fill it from the first byte to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PlannedPlane {
    /// Offset in the buffer of the plane, in bytes.
    pub at: u64,
    /// Length in bytes.
    pub len: u64,
    /// The number of a [`Space`].
    pub space: u32,
    /// Index of the [`JoinedTensor`], or [`NONE`] for a plane that is output itself.
    pub tensor: u32,
    /// Index of the first of its segments, which are consecutive.
    pub first_segment: u32,
    /// Number of segments.
    pub segments: u32,
}

/// Consecutive bytes of a plane that are decoded independently of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Segment {
    /// Offset of the coded bytes in the source.
    pub source: u64,
    /// Offset of the decoded bytes in the plane.
    pub position: u64,
    /// Number of coded bytes.
    pub source_len: u32,
    /// Number of decoded bytes, at least 1.
    pub len: u32,
    /// The number of a [`Coding`].
    pub coding: u32,
    /// The parameter of the coding; 0 for stored bytes.
    pub parameter: u32,
    /// Index of the plane.
    pub plane: u32,
    /// Always 0.
    pub reserved: u32,
}

/// A complete Huffman code whose codes have at most [`MAX_CODE_BITS`] bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HuffmanTable {
    /// The weights of all symbols (RFC 8878, 4.2.1), with four bits each: an even
    /// symbol in the lower half of a byte, the next symbol in the upper half.
    pub weights: [u8; 128],
    /// Length of the longest code in bits.
    pub bits: u32,
}

/// The length in bits of the longest code that a plan contains. RFC 8878 allows no
/// longer ones; some decoders accept 12 bits.
pub const MAX_CODE_BITS: u32 = 11;

/// The frequencies of all symbols of order 0, which sum to 2^14.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RansTable {
    /// The frequency of every symbol.
    pub frequencies: [u16; 256],
}

/// A segment that the host decodes and copies to the device before planes are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HostSegment {
    /// Offset of the coded bytes in the source.
    pub source: u64,
    /// Number of coded bytes.
    pub source_len: u64,
    /// Number of decoded bytes.
    pub len: u64,
    /// Index of the segment.
    pub segment: u32,
    /// The number of the plane method that decodes the bytes
    /// (docs/formats/z4ai-frames.md 4).
    pub method: u32,
}

/// A tensor of floats whose frame states its difference from the base
/// (docs/formats/zxd1.md). The output contains the elements of the base, which are
/// replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PlannedDifference {
    /// Offset of the first element in the output, in bytes.
    pub output: u64,
    /// Number of elements, at least 1.
    pub elements: u64,
    /// Number of elements of a group, at least 1.
    pub group_elements: u64,
    /// Index of the code of the first group; the codes of the other groups follow.
    pub first_code: u64,
    /// The dtype of the elements: 0 for bfloat16, 1 for float16, 2 for float32.
    pub dtype: u32,
    /// Size of one element in bytes.
    pub item_bytes: u32,
    /// Number of rANS states of a block: 8, 16 or 32.
    pub states: u32,
    /// Number of elements of a block, except for the last one.
    pub block_elements: u32,
    /// Index of the first of its tables, which are consecutive.
    pub first_table: u32,
    /// Number of tables, 1 to 16.
    pub tables: u32,
    /// The expected difference for each value of the top six mantissa bits, in groups of
    /// code 254.
    pub means: [i32; 64],
    /// The coding of each of the 161 contexts: its table, relative to `first_table`, in the
    /// top four bits, and its shift in the others. The last numbers are 0.
    pub contexts: [u16; Self::CONTEXTS],
}

impl PlannedDifference {
    /// The number of contexts, rounded up to a multiple of 4.
    pub const CONTEXTS: usize = 164;
}

/// The frequencies of symbols of a difference, which sum to 4096.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DifferenceTable {
    /// The frequency of every symbol.
    pub frequencies: [u16; Self::SYMBOLS],
}

impl DifferenceTable {
    /// The number of symbols.
    pub const SYMBOLS: usize = 86;
}

/// A block of elements of a difference, which is decoded independently of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DifferenceBlock {
    /// Offset of the rANS part in the source. The raw bits follow it.
    pub rans: u64,
    /// Length of the rANS part in bytes.
    pub rans_len: u32,
    /// Length of the raw bits in bytes.
    pub raw_len: u32,
    /// Index of the [`PlannedDifference`]; its blocks are consecutive.
    pub difference: u32,
    /// Number of the block in its tensor.
    pub number: u32,
}

/// Bytes of the output that are compared with a digest after everything has been decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PlannedDigest {
    /// Offset of the first byte in the output.
    pub output: u64,
    /// Number of bytes.
    pub len: u64,
    /// The first 16 bytes of their BLAKE3 digest.
    pub expected: [u8; 16],
}

/// A range of the output that contains the base's tensor. The decoded bytes of this range
/// are XORed with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PlannedXor {
    /// Offset of the first byte in the output.
    pub output: u64,
    /// Number of bytes.
    pub len: u64,
}
