/**
 * The part that all shaders share: bindings, the lists that `wasm/src/shader_lists.rs` makes, and access to bytes.
 *
 * Memory of shaders consists of words of four bytes. A word of which a thread writes only some bytes may contain bytes of
 * other threads, so it is written by `merge`, which sets bits, into memory that was zero. `INDEX` numbers the words of the
 * lists' header.
 */

/** Positions of numbers in the header of the lists. */
export const INDEX = {
  /** The number of Huffman codes, and the position of the first one. */
  codes: 0,
  /** The same for Huffman streams. */
  streams: 2,
  /** The same for stored bytes, runs and flat codes. */
  copies: 4,
  /** The same for rANS streams. */
  rans: 6,
  frequencies: 8,
  /** How planes are joined: 0 if they are not, 1 for bytes, 2 for bfloat16, 3 for float16, 4 for float32. */
  join: 9,
  itemBytes: 10,
  elements: 11,
  /** Offsets of the planes in the scratch buffer, in bytes. */
  planes: 12,
  /** The word of the output that the tensor begins with; set by `decode.ts`. */
  output: 20,
  scratchBytes: 21,
  decodedStart: 22,
} as const;

/** The length of a record of a segment, and of a Huffman code before and after it is expanded, in words. */
export const SEGMENT_WORDS = 7;
export const CODE_WORDS = 33;
export const TABLE_WORDS = 2112;

/** The number of elements of a workgroup that joins planes is four times this number, divided by the bytes of one. */
export const JOIN_THREADS = 256;

export const LISTS = /* wgsl */ `
@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read> lists: array<u32>;
@group(0) @binding(2) var<storage, read_write> tables: array<u32>;
@group(0) @binding(3) var<storage, read_write> scratch: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read_write> output: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read_write> damage: atomic<u32>;

struct Segment {
  start: u32,
  coded: u32,
  to: u32,
  count: u32,
  space: u32,
  coding: u32,
  parameter: u32,
}

fn segment_at(at: u32) -> Segment {
  return Segment(lists[at], lists[at + 1u], lists[at + 2u], lists[at + 3u], lists[at + 4u], lists[at + 5u], lists[at + 6u]);
}

// Workgroups are in rows, because each dimension is limited.
fn number_of(id: vec3<u32>, groups: vec3<u32>) -> u32 {
  return id.x + id.y * groups.x;
}

fn source_byte(at: u32) -> u32 {
  return (source[at >> 2u] >> (8u * (at & 3u))) & 255u;
}

// Returns four bytes as a little-endian number.
fn source_word(at: u32) -> u32 {
  let low = source[at >> 2u];
  let shift = 8u * (at & 3u);
  if (shift == 0u) {
    return low;
  }
  return (low >> shift) | (source[(at >> 2u) + 1u] << (32u - shift));
}

fn put(space: u32, word: u32, bits: u32) {
  if (space == 0u) {
    atomicStore(&scratch[word], bits);
  } else {
    atomicStore(&output[lists[${INDEX.output}] + word], bits);
  }
}

fn merge(space: u32, word: u32, bits: u32) {
  if (space == 0u) {
    atomicOr(&scratch[word], bits);
  } else {
    atomicOr(&output[lists[${INDEX.output}] + word], bits);
  }
}

fn report() {
  atomicStore(&damage, 1u);
}
`;
