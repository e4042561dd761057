/**
 * Lengths above 4 GiB, which do not fit into the 32-bit numbers of WebAssembly, are rejected and never truncated to
 * their lower half.
 */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { decompress, open } from "zstn";
import { scratchFolder } from "../support/scratch.mjs";
import { goodContainers, goodFrames, isRefusal, readableByName, vectorPath } from "../support/vectors.mjs";

/**
 * Adds 2^32 to the first 64-bit integer before `within` that equals `value`. Truncated to 32 bits, the result would
 * equal the original.
 */
function with4GibMore(file, within, value) {
  const bytes = new Uint8Array(file);
  const view = new DataView(bytes.buffer);
  for (let at = 0; at + 8 <= Math.min(within, bytes.length); at++) {
    if (view.getBigUint64(at, true) !== BigInt(value)) continue;
    bytes[at + 4] = 1;
    return bytes;
  }
  return undefined;
}

test("frames that say so are refused", async () => {
  let refused = 0;
  for (const [name, { original_len }] of goodFrames) {
    // Other fields could have the same value as a short length.
    const longer = original_len >= 256 && with4GibMore(readFileSync(vectorPath("z4ai", `${name}.z4ai`)), 64, original_len);
    if (!longer) continue;
    await assert.rejects(decompress(longer), isRefusal, name);
    refused++;
  }
  assert.ok(refused > 100, `only ${refused} frames`);
});

test("containers that say so are refused", async () => {
  const path = join(scratchFolder(), "longer.zstn");
  let refused = 0;
  for (const { name, container, layout } of goodContainers.filter(readableByName)) {
    for (const field of ["header_len", "data_len"]) {
      const longer = layout[field] >= 256 && with4GibMore(readFileSync(vectorPath("zstn", container.file)), 22, layout[field]);
      if (!longer) continue;
      writeFileSync(path, longer);
      await assert.rejects(open(path), isRefusal, `${name}: ${field}`);
      refused++;
    }
  }
  assert.ok(refused > 15, `only ${refused} containers`);
});

test("a tensor of more than 4 GiB is not read as what is left of its length", async () => {
  const path = join(scratchFolder(), "far.safetensors");
  const json = JSON.stringify({ far: { dtype: "U8", shape: [2 ** 32 + 16], data_offsets: [0, 2 ** 32 + 16] } }).padEnd(96);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(96n);
  // Truncated to 32 bits, the tensor would have these 16 bytes.
  writeFileSync(path, Buffer.concat([length, Buffer.from(json), Buffer.alloc(16, 7)]));
  await assert.rejects(open(path).then((model) => model.tensor("far")), isRefusal);
});
