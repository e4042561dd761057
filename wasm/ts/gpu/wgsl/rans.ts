/**
 * Decodes streams of rANS symbols of order 0 (docs/formats/z4ai-frames.md 5). The symbols of a stream belong to four states
 * alternately, which share one sequence of bytes, so one thread decodes them. The others of its workgroup only load the
 * frequencies.
 */

import { INDEX, SEGMENT_WORDS } from "./lists.js";

export const RANS = /* wgsl */ `
const LOADING = 32u;
const LOWER = 1u << 23u;
const UPPER = 1u << 31u;
const SLOTS = 1u << 14u;

// The frequency of every symbol, then its first slot, and after the last one the number of all slots.
var<workgroup> begins: array<u32, 257>;

// Returns the last symbol that does not begin after a slot. Symbols without a slot begin where the next one does.
fn symbol_of(slot: u32) -> u32 {
  var symbol = 0u;
  for (var step = 128u; step > 0u; step >>= 1u) {
    if (begins[symbol + step] <= slot) {
      symbol += step;
    }
  }
  return symbol;
}

// Decodes a stream, and returns whether it ends with its last symbol.
fn decode_rans(segment: Segment) -> bool {
  var sum = 0u;
  for (var symbol = 0u; symbol < 256u; symbol++) {
    let frequency = begins[symbol];
    begins[symbol] = sum;
    sum += frequency;
  }
  begins[256] = sum;
  if (sum != SLOTS || segment.coded < 16u) {
    return false;
  }
  var states: array<u32, 4>;
  for (var k = 0u; k < 4u; k++) {
    states[k] = source_word(segment.start + 4u * k);
    if (states[k] < LOWER || states[k] >= UPPER) {
      return false;
    }
  }
  var at = segment.start + 16u;
  let end = segment.start + segment.coded;
  let offset = 8u * (segment.to & 3u);
  var waiting = 0u;
  for (var first = 0u; first < segment.count; first += 4u) {
    let count = min(4u, segment.count - first);
    var four = 0u;
    for (var k = 0u; k < count; k++) {
      let slot = states[k] & (SLOTS - 1u);
      let symbol = symbol_of(slot);
      var state = (begins[symbol + 1u] - begins[symbol]) * (states[k] >> 14u) + slot - begins[symbol];
      // A state has 9 bits at least, so two bytes suffice.
      for (var n = 0u; n < 2u && state < LOWER; n++) {
        if (at >= end) {
          return false;
        }
        state = (state << 8u) | source_byte(at);
        at++;
      }
      states[k] = state;
      four |= symbol << (8u * k);
    }
    waiting |= four << offset;
    let word = (segment.to + first) >> 2u;
    if (offset + 8u * count >= 32u) {
      if (first == 0u && offset > 0u) {
        merge(segment.space, word, waiting);
      } else {
        put(segment.space, word, waiting);
      }
      waiting = select(four >> (32u - offset), 0u, offset == 0u);
    }
  }
  let stop = segment.to + segment.count;
  if ((stop & 3u) != 0u) {
    merge(segment.space, stop >> 2u, waiting);
  }
  let is_final = states[0] == LOWER && states[1] == LOWER && states[2] == LOWER && states[3] == LOWER;
  return is_final && at == end;
}

@compute @workgroup_size(LOADING)
fn decode_rans_streams(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let number = number_of(id, groups);
  if (number >= lists[${INDEX.rans}]) {
    return;
  }
  let segment = segment_at(lists[${INDEX.rans + 1}] + ${SEGMENT_WORDS}u * number);
  let frequencies = lists[${INDEX.frequencies}] + 128u * segment.parameter;
  for (var k = thread; k < 128u; k += LOADING) {
    let two = lists[frequencies + k];
    begins[2u * k] = two & 0xFFFFu;
    begins[2u * k + 1u] = two >> 16u;
  }
  workgroupBarrier();
  if (thread == 0u && !decode_rans(segment)) {
    report();
  }
}
`;
