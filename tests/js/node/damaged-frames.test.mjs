/** Damaged frames are rejected without using much memory: the tests run in a module with little memory. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";
import { configure, decompress } from "zstn";
import { withLittleMemory } from "../support/little-memory.mjs";
import { badFrames, refusalOf, vectorPath } from "../support/vectors.mjs";

before(async () => {
  const module = await readFile(new URL(import.meta.resolve("zstn/zstn_coder_bg.wasm")));
  configure({ wasm: { coder: withLittleMemory(module, 64 << 20) } });
});

test("every damaged frame is refused for its rule and within 64 MiB", async () => {
  assert.ok(badFrames.length >= 90);
  for (const [name, vector] of badFrames) {
    const frame = new Uint8Array(await readFile(vectorPath("z4ai-bad", `${name}.z4ai`)));
    const options = vector.needs_output_limit ? { maxBytes: vector.needs_output_limit } : {};
    await assert.rejects(decompress(frame, options), refusalOf(vector), `${name}: ${vector.why}`);
  }
});
