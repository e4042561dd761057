// The records of a plan, as zstn-core's `frame::plan` declares them, and the arguments
// that all kernels have.
#pragma once

#include "block.h"

static const u32 NONE = 0xFFFFFFFFu;

// Numbers of `Space`, `Coding` and `Join`.
static const u32 IN_OUTPUT = 1;
static const u32 STORED = 0, RUN = 1, FLAT = 2, HUFFMAN = 3;
static const u32 BYTES = 0, FLOAT16 = 2, PALETTE = 4;
// Numbers of dtypes of lattices and differences.
static const u32 DTYPE_BFLOAT16 = 0, DTYPE_FLOAT16 = 1;

struct JoinedTensor {
    u64 output, elements;
    u32 first_plane, planes, join, item_bytes, parameter, reserved;
};

struct PlannedPlane {
    u64 at, len;
    u32 space, tensor, first_segment, segments;
};

struct Segment {
    u64 source, position;
    u32 source_len, len, coding, parameter, plane, reserved;
};

struct HuffmanTable {
    u8 weights[128];
    u32 bits;
};

struct RansTable {
    u16 frequencies[256];
};

struct Lattice {
    // The bits of float32 numbers, as are the scales of groups.
    u32 values[256];
    u32 columns, group_rows, group_columns, dtype, first_group, negative_zero;
};

struct LatticeGroup {
    u32 scale;
    i32 offset;
};

static const u32 DIFFERENCE_CONTEXTS = 164, DIFFERENCE_SYMBOLS = 86;

struct PlannedDifference {
    u64 output, elements, group_elements, first_code;
    u32 dtype, item_bytes, states, block_elements, first_table, tables;
    i32 means[64];
    u16 contexts[DIFFERENCE_CONTEXTS];
};

struct DifferenceTable {
    u16 frequencies[DIFFERENCE_SYMBOLS];
};

struct DifferenceBlock {
    u64 rans;
    u32 rans_len, raw_len, difference, number;
};

struct PlannedDigest {
    u64 output, len;
    u8 expected[16];
};

// Elements that one block joins, as the crate's `jobs` module declares them.
struct Tile {
    // The first element.
    u64 first;
    // Offset of the tensor's signs: in the source, or in the scratch buffer if
    // IN_SCRATCH is set. Only tiles of bfloat16 have it.
    u64 signs;
    u32 count, tensor;
    // The segment that holds exactly the exponents of these elements, or NONE if they
    // are in the scratch buffer.
    u32 exponents;
    // The segment of the first element's mantissa.
    u32 mantissas;
};

static const u64 IN_SCRATCH = 1ull << 63;

// Consecutive segments with the same rANS table, which one block decodes.
struct RansChunks {
    u32 first, count;
};

// The largest number of elements of a tile.
static const u32 MAX_TILE = 32768;

// Elements of a sparse tensor that one block counts, and writes.
struct SparseTile {
    // The first element, a multiple of MAX_TILE.
    u64 first;
    // Offset in the scratch buffer of a number of 64 bits: how many values the tile has,
    // then how many the tiles before it have.
    u64 before;
    u32 count, tensor;
};

// A sparse tensor, whose counts one block adds up.
struct SparseSum {
    // Offset in the scratch buffer of the number of the first tile. The others follow.
    u64 before;
    u64 tiles;
    u32 tensor, reserved;
};

// Consecutive blocks of one difference, which one block of threads decodes.
struct DifferenceBlocks {
    u32 first, count;
};

// Bytes of the output that one block hashes.
struct DigestTile {
    // Offset of the first byte in the bytes that have the digest.
    u64 first;
    // Offset in the scratch buffer of the place for the chaining value.
    u64 value;
    u32 len, digest;
};

// Bytes with a digest, for which one block combines the chaining values of all tiles.
struct DigestSum {
    // Offset in the scratch buffer of the first value. The others follow, and then as much
    // memory again.
    u64 values;
    u32 tiles, digest;
};

// Bytes of the base that one block copies from the output to the scratch buffer. Another
// block XORs the decoded bytes with them.
struct XorTile {
    u64 output, base;
    u32 len, reserved;
};

// Codes are looked up by this number of bits.
static const u32 LOOKUP_BITS = 11;

// An expanded Huffman code.
struct DecodeTable {
    // For the next LOOKUP_BITS bits of a stream: up to three whole symbols in the lower
    // 24 bits, the total length of their codes in the next four, their number above.
    u32 several[1 << LOOKUP_BITS];
    // The length of the code of every symbol in bits.
    u8 lens[256];
};

static_assert(sizeof(JoinedTensor) == 40 && sizeof(PlannedPlane) == 32, "layout");
static_assert(sizeof(Segment) == 40 && sizeof(HuffmanTable) == 132, "layout");
static_assert(sizeof(RansTable) == 512 && sizeof(Tile) == 32, "layout");
static_assert(sizeof(Lattice) == 1048 && sizeof(LatticeGroup) == 8, "layout");
static_assert(sizeof(RansChunks) == 8, "layout");
static_assert(sizeof(SparseTile) == 24 && sizeof(SparseSum) == 24, "layout");
static_assert(sizeof(PlannedDifference) == 640 && sizeof(DifferenceTable) == 172, "layout");
static_assert(sizeof(DifferenceBlock) == 24 && sizeof(PlannedDigest) == 32, "layout");
static_assert(sizeof(DifferenceBlocks) == 8 && sizeof(DigestTile) == 24, "layout");
static_assert(sizeof(DigestSum) == 16 && sizeof(XorTile) == 24, "layout");
static_assert(sizeof(DecodeTable) == 8448, "the launcher's `DECODE_TABLE_BYTES`");

// The lists and buffers. The source and the scratch buffer start at multiples of 16,
// and are readable up to the next multiple of 16 after their ends.
struct Launch {
    const u8* source;
    u8* scratch;
    u8* output;
    const JoinedTensor* tensors;
    const PlannedPlane* planes;
    const Segment* segments;
    const HuffmanTable* huffman_tables;
    const RansTable* rans_tables;
    const Lattice* lattices;
    const LatticeGroup* lattice_groups;
    const PlannedDifference* differences;
    const u8* difference_codes;
    const DifferenceTable* difference_tables;
    const DifferenceBlock* difference_blocks;
    const PlannedDigest* digests;
    DecodeTable* decode_tables;
    // The lowest indices of a damaged segment, of a damaged tensor, of a damaged block of a
    // difference, and of a digest that does not match its bytes. All are NONE at first.
    u32* damage;
};

DEVICE void report_segment(const Launch& launch, u32 segment) {
    lower_to(&launch.damage[0], segment);
}

DEVICE void report_tensor(const Launch& launch, u32 tensor) {
    lower_to(&launch.damage[1], tensor);
}

DEVICE void report_block(const Launch& launch, u32 block) {
    lower_to(&launch.damage[2], block);
}

DEVICE void report_digest(const Launch& launch, u32 digest) {
    lower_to(&launch.damage[3], digest);
}

// Returns the place of byte `position` of a plane.
DEVICE u8* plane_bytes(const Launch& launch, const PlannedPlane& plane, u64 position) {
    return (plane.space == IN_OUTPUT ? launch.output : launch.scratch) + plane.at + position;
}
