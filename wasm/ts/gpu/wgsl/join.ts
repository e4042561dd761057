/** Joins planes in the scratch buffer into elements (docs/formats/z4ai-frames.md 3.3, 3.4). A thread writes one word. */

import { INDEX, JOIN_THREADS } from "./lists.js";

export const JOIN = /* wgsl */ `
fn scratch_byte(at: u32) -> u32 {
  return (atomicLoad(&scratch[at >> 2u]) >> (8u * (at & 3u))) & 255u;
}

// Returns element k of bfloat16, float16 or float32, whose fields are planes, and reports a field with too many bits.
fn float_at(k: u32, exponent_bits: u32, mantissa_bits: u32) -> u32 {
  let sign = (scratch_byte(lists[${INDEX.planes}] + (k >> 3u)) >> (7u - (k & 7u))) & 1u;
  let exponent = scratch_byte(lists[${INDEX.planes + 1}] + k);
  var mantissa = 0u;
  for (var part = 0u; 8u * part < mantissa_bits; part++) {
    mantissa |= scratch_byte(lists[${INDEX.planes + 2}] + part * lists[${INDEX.elements}] + k) << (8u * part);
  }
  if ((mantissa >> mantissa_bits) != 0u || (exponent >> exponent_bits) != 0u) {
    report();
  }
  return (((sign << exponent_bits) | exponent) << mantissa_bits) | mantissa;
}

fn pair_at(word: u32, exponent_bits: u32, mantissa_bits: u32) -> u32 {
  let low = float_at(2u * word, exponent_bits, mantissa_bits);
  if (2u * word + 1u >= lists[${INDEX.elements}]) {
    return low;
  }
  return low | (float_at(2u * word + 1u, exponent_bits, mantissa_bits) << 16u);
}

// Returns four bytes of elements of which each plane has one byte.
fn bytes_at(word: u32, total: u32) -> u32 {
  let width = lists[${INDEX.itemBytes}];
  var bytes = 0u;
  for (var k = 4u * word; k < min(4u * word + 4u, total); k++) {
    bytes |= scratch_byte(lists[${INDEX.planes}u + k % width] + k / width) << (8u * (k & 3u));
  }
  return bytes;
}

// Returns whether the bits after the last sign are zero.
fn is_padding_zero() -> bool {
  let elements = lists[${INDEX.elements}];
  let used = elements & 7u;
  return used == 0u || ((scratch_byte(lists[${INDEX.planes}] + (elements >> 3u)) << used) & 255u) == 0u;
}

@compute @workgroup_size(${JOIN_THREADS})
fn join_planes(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let word = ${JOIN_THREADS}u * number_of(id, groups) + thread;
  let total = lists[${INDEX.elements}] * lists[${INDEX.itemBytes}];
  if (word >= (total + 3u) / 4u) {
    return;
  }
  var bits = 0u;
  switch (lists[${INDEX.join}]) {
    case 2u: {
      bits = pair_at(word, 8u, 7u);
    }
    case 3u: {
      bits = pair_at(word, 5u, 10u);
    }
    case 4u: {
      bits = float_at(word, 8u, 23u);
    }
    case 1u: {
      bits = bytes_at(word, total);
    }
    default: {
      report();
    }
  }
  if (word == 0u && lists[${INDEX.join}] > 1u && !is_padding_zero()) {
    report();
  }
  if (4u * word + 4u <= total) {
    put(1u, word, bits);
  } else {
    // The bytes after the last element are written by another shader.
    merge(1u, word, bits);
  }
}
`;
