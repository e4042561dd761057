/** Writes segments that need no table: stored bytes, runs of a byte, and flat codes of zstd, which have equal lengths. */

import { INDEX, SEGMENT_WORDS } from "./lists.js";

export const COPIES = /* wgsl */ `
const COPYING = 128u;
const STORED = 0u;
const RUN = 1u;

fn flat_symbol(segment: Segment, k: u32) -> u32 {
  // The last symbol is in the lowest bits.
  let bit = (segment.count - 1u - k) * segment.parameter;
  return (source_word(segment.start + (bit >> 3u)) >> (bit & 7u)) & ((1u << segment.parameter) - 1u);
}

// Returns bytes k to end of a segment as a little-endian number.
fn bytes_of(segment: Segment, k: u32, end: u32) -> u32 {
  if (segment.coding == RUN) {
    return (segment.parameter & 255u) * 0x01010101u;
  }
  if (segment.coding == STORED) {
    return source_word(segment.start + k);
  }
  var bytes = 0u;
  for (var j = k; j < end; j++) {
    bytes |= flat_symbol(segment, j) << (8u * (j - k));
  }
  return bytes;
}

fn is_exact(segment: Segment) -> bool {
  if (segment.coding == STORED) {
    return segment.coded == segment.count;
  }
  if (segment.coding == RUN) {
    return true;
  }
  let is_flat = segment.coding == 2u && segment.parameter >= 1u && segment.parameter <= 7u && segment.count < (1u << 28u);
  return is_flat && segment.coded == segment.count * segment.parameter / 8u + 1u;
}

@compute @workgroup_size(COPYING)
fn copy_segments(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let number = number_of(id, groups);
  if (number >= lists[${INDEX.copies}]) {
    return;
  }
  let segment = segment_at(lists[${INDEX.copies + 1}] + ${SEGMENT_WORDS}u * number);
  if (segment.count == 0u || !is_exact(segment)) {
    report();
    return;
  }
  let end = segment.to + segment.count;
  for (var word = (segment.to >> 2u) + thread; word <= (end - 1u) >> 2u; word += COPYING) {
    let first = max(4u * word, segment.to);
    let stop = min(4u * word + 4u, end);
    let bytes = bytes_of(segment, first - segment.to, stop - segment.to);
    if (stop - first == 4u) {
      put(segment.space, word, bytes);
    } else {
      let own = bytes & ((1u << (8u * (stop - first))) - 1u);
      merge(segment.space, word, own << (8u * (first & 3u)));
    }
  }
}
`;
