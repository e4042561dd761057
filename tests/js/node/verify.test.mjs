/** The option `verify`: the checks on tensors that are read. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { open, workerPool } from "zstn";
import { vectorPath } from "../support/vectors.mjs";

/**
 * A file with another frame for `w` and a checksum that matches it, so that only the digest of `w` differs
 * (tests/rust/formats/integrity/mod.rs).
 */
const file = readFileSync(vectorPath("zstn-verify", "replaced-frame.zstn"));

/** Reads `w` with every reading function. */
async function readAll(options) {
  const model = await open(file, options);
  try {
    const outcomes = [];
    for (const read of [() => model.tensor("w"), () => model.stream(["w"]).next(), () => model.tensor("tied"), () => model.asSafetensorsBlob().bytes(), () => model.tensor("w", { rows: [0, 1] })]) {
      outcomes.push(await read().then(() => "read", ({ rule }) => rule));
    }
    return [...new Set(outcomes)];
  } finally {
    model.close();
  }
}

test("`full` detects a frame that was replaced along with its checksum; `stored`, the default, does not", async () => {
  assert.deepEqual(await readAll(), ["read"]);
  assert.deepEqual(await readAll({ verify: "stored" }), ["read"]);
  assert.deepEqual(await readAll({ verify: "full" }), ["zstn.tensor_digest"]);
});

test("workers compare the same", async () => {
  const pool = workerPool({ size: 1, minBytes: 0 });
  try {
    assert.deepEqual(await readAll({ workers: pool }), ["read"]);
    assert.deepEqual(await readAll({ workers: pool, verify: "full" }), ["zstn.tensor_digest"]);
    assert.ok(pool.decoded > 0, "a worker decoded");
  } finally {
    pool.close();
  }
});

test("every flipped bit of a frame is refused by its checksum", async () => {
  const model = await open(file);
  const { parts: [{ offset, length }] } = model.tensors.get("w");
  model.close();
  for (let bit = 0; bit < 8 * length; bit++) {
    const flipped = new Uint8Array(file);
    flipped[offset + (bit >> 3)] ^= 1 << (bit & 7);
    const damaged = await open(flipped);
    await assert.rejects(damaged.tensor("w"), { code: "malformed", rule: "zstn.frame_checksum", tensor: "w" }, `bit ${bit}`);
    damaged.close();
  }
});

test("another word is refused", async () => {
  for (const verify of ["all", "", null, true]) await assert.rejects(open(file, { verify }), { code: "invalid_input", message: /`verify` must be "stored" or "full"/ });
});
