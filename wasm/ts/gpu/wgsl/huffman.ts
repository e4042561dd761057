/**
 * Expands Huffman codes, and decodes streams of zstd (RFC 8878, 4.2.2) with all threads of a workgroup.
 *
 * A decoder that starts at a wrong bit of a prefix code soon meets the boundaries of the right symbols. Each thread owns
 * an equal number of bits. It guesses its start by decoding from some bits before them, then counts the symbols that
 * start among its bits, and finds the boundary where the next thread has to start. Threads whose guess was wrong count
 * again, until all neighbours agree, which takes at most as many rounds as there are threads. The first thread knows its
 * start, so the result is exact. A prefix sum of the counts gives the positions of the symbols.
 *
 * An entry of `several` has, for the next 11 bits of a stream, up to three whole symbols in the lower 24 bits, the total
 * length of their codes in the next four, and their number above. `lens` has the lengths of the codes of all symbols, one
 * byte each, and `ends` where each thread ends, as the number of bits after the first bit of the next thread.
 */

import { CODE_WORDS, INDEX, SEGMENT_WORDS, TABLE_WORDS } from "./lists.js";

/** The number of threads of a stream. */
const THREADS = 256;

/** The longest stream, in bytes. Streams of zstd are shorter than its blocks of 128 KiB. */
const MAX_BYTES = 1 << 18;

export const HUFFMAN = /* wgsl */ `
const THREADS = ${THREADS}u;

var<workgroup> several: array<u32, 2048>;
var<workgroup> lens: array<u32, 64>;
var<workgroup> ends: array<u32, THREADS>;
// The number of symbols of each thread, and later the running totals.
var<workgroup> counts: array<u32, THREADS>;
var<workgroup> wrong_guesses: atomic<u32>;
var<workgroup> is_wrong_anywhere: u32;

@compute @workgroup_size(256)
fn expand_codes(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) symbol: u32) {
  let number = number_of(id, groups);
  if (number >= lists[${INDEX.codes}]) {
    return;
  }
  let code = lists[${INDEX.codes + 1}] + ${CODE_WORDS}u * number;
  let table = ${TABLE_WORDS}u * number;
  let bits = min(lists[code + 32u], 11u);
  let weight = min((lists[code + (symbol >> 3u)] >> (4u * (symbol & 7u))) & 15u, bits);
  let len = select(0u, bits + 1u - weight, weight > 0u);
  counts[symbol] = weight;
  workgroupBarrier();
  if (weight > 0u) {
    // Longer codes come first; symbols with codes of equal lengths are in their order.
    var start = 0u;
    for (var other = 0u; other < 256u; other++) {
      let its = counts[other];
      if (its > 0u && (its < weight || (its == weight && other < symbol))) {
        start += 1u << (its - 1u);
      }
    }
    let end = min((start + (1u << (weight - 1u))) << (11u - bits), 2048u);
    for (var k = start << (11u - bits); k < end; k++) {
      several[k] = symbol | (len << 8u);
    }
  }
  if (symbol < 64u) {
    var four = 0u;
    for (var k = 0u; k < 4u; k++) {
      let its = counts[4u * symbol + k];
      four |= select(0u, bits + 1u - its, its > 0u) << (8u * k);
    }
    tables[table + 2048u + symbol] = four;
  }
  workgroupBarrier();
  for (var k = symbol; k < 2048u; k += 256u) {
    var symbols = 0u;
    var taken = 0u;
    var number_of_symbols = 0u;
    for (; number_of_symbols < 3u; number_of_symbols++) {
      let next = several[(k << taken) & 2047u];
      // Only a code that lies in the known bits is certain.
      if (taken + (next >> 8u) > 11u) {
        break;
      }
      symbols |= (next & 255u) << (8u * number_of_symbols);
      taken += next >> 8u;
    }
    tables[table + k] = symbols | (taken << 24u) | (number_of_symbols << 28u);
  }
}

// Returns the 32 bits below a position, which is counted from the lowest bit of the word base.
fn bits_below(base: u32, position: u32) -> u32 {
  let low = source[base + ((position - 32u) >> 5u)];
  let shift = position & 31u;
  if (shift == 0u) {
    return low;
  }
  return (low >> shift) | (source[base + (position >> 5u)] << (32u - shift));
}

fn len_of(symbol: u32) -> u32 {
  return (lens[symbol >> 2u] >> (8u * (symbol & 3u))) & 255u;
}

// The position after the symbols that start above end, and their number.
struct Counted {
  position: u32,
  count: u32,
}

fn count_symbols(base: u32, start: u32, end: u32) -> Counted {
  var found = Counted(start, 0u);
  // Every step takes a bit at least, unless the code is incomplete.
  for (var left = max(start, end) - end; left > 0u && found.position >= end + 11u; left--) {
    let entry = several[bits_below(base, found.position) >> 21u];
    found.position -= (entry >> 24u) & 15u;
    found.count += entry >> 28u;
  }
  for (var left = 11u; left > 0u && found.position > end; left--) {
    found.position -= len_of(several[bits_below(base, found.position) >> 21u] & 255u);
    found.count++;
  }
  return found;
}

// Writes the symbols that count_symbols counts to the bytes from place on.
fn write_symbols(base: u32, start: u32, end: u32, space: u32, place: u32) {
  var position = start;
  var to = place;
  var waiting = 0u;
  // Other threads write the first bytes of the first word.
  var is_shared = (to & 3u) != 0u;
  for (var left = max(start, end) - end; left > 0u && position > end; left--) {
    let entry = several[bits_below(base, position) >> 21u];
    var symbols = entry & 0xFFFFFFu;
    var number = entry >> 28u;
    if (position >= end + 11u) {
      position -= (entry >> 24u) & 15u;
    } else {
      symbols &= 255u;
      number = 1u;
      position -= len_of(symbols);
    }
    let offset = to & 3u;
    waiting |= symbols << (8u * offset);
    if (offset + number >= 4u) {
      if (is_shared) {
        merge(space, to >> 2u, waiting);
      } else {
        put(space, to >> 2u, waiting);
      }
      is_shared = false;
      // The offset is not zero, because an entry has three symbols at most.
      waiting = symbols >> (32u - 8u * offset);
    }
    to += number;
  }
  if ((to & 3u) != 0u) {
    merge(space, to >> 2u, waiting);
  }
}

@compute @workgroup_size(THREADS)
fn decode_streams(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let number = number_of(id, groups);
  if (number >= lists[${INDEX.streams}]) {
    return;
  }
  let segment = segment_at(lists[${INDEX.streams + 1}] + ${SEGMENT_WORDS}u * number);
  let is_short = segment.coded > 0u && segment.coded <= ${MAX_BYTES}u && segment.count <= 8u * ${MAX_BYTES}u;
  if (!is_short || 8u * (segment.coded - 1u) > 11u * segment.count) {
    report();
    return;
  }
  let last = source_byte(segment.start + segment.coded - 1u);
  if (last == 0u) {
    report();
    return;
  }
  let table = ${TABLE_WORDS}u * segment.parameter;
  for (var k = thread; k < 2048u; k += THREADS) {
    several[k] = tables[table + k];
  }
  if (thread < 64u) {
    lens[thread] = tables[table + 2048u + thread];
  }
  workgroupBarrier();
  // Positions are counted from two words before the stream, so that none is negative.
  let base = (segment.start >> 2u) - 2u;
  let low = 64u + 8u * (segment.start & 3u);
  let total = 8u * (segment.coded - 1u) + firstLeadingBit(last);
  let first = low + total - total * thread / THREADS;
  let next = low + total - total * (thread + 1u) / THREADS;
  var start = count_symbols(base, min(first + 64u, low + total), first).position;
  var found = count_symbols(base, start, next);
  ends[thread] = next - found.position;
  counts[thread] = found.count;
  for (var round = 0u; round < THREADS; round++) {
    if (thread == 0u) {
      atomicStore(&wrong_guesses, 0u);
    }
    workgroupBarrier();
    var right = low + total;
    if (thread > 0u) {
      right = first - ends[thread - 1u];
    }
    let is_wrong = right != start;
    if (is_wrong) {
      atomicStore(&wrong_guesses, 1u);
    }
    workgroupBarrier();
    if (thread == 0u) {
      is_wrong_anywhere = atomicLoad(&wrong_guesses);
    }
    if (workgroupUniformLoad(&is_wrong_anywhere) == 0u) {
      break;
    }
    if (is_wrong) {
      start = right;
      found = count_symbols(base, start, next);
      ends[thread] = next - found.position;
      counts[thread] = found.count;
    }
  }
  workgroupBarrier();
  for (var step = 1u; step < THREADS; step *= 2u) {
    var sum = counts[thread];
    if (thread >= step) {
      sum += counts[thread - step];
    }
    workgroupBarrier();
    counts[thread] = sum;
    workgroupBarrier();
  }
  if (counts[THREADS - 1u] != segment.count || ends[THREADS - 1u] != 0u) {
    report();
    return;
  }
  write_symbols(base, start, next, segment.space, segment.to + counts[thread] - found.count);
}
`;
