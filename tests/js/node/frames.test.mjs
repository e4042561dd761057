/** Single frames: every golden one decodes, and what is made comes back. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { compress, decompress } from "zstn";
import { goodContainers, goodFrames, sha256, vectorPath } from "../support/vectors.mjs";

const read = (folder, name) => new Uint8Array(readFileSync(vectorPath(folder, `${name}.z4ai`)));

test("every golden frame decodes byte for byte", async () => {
  assert.ok(goodFrames.length >= 514);
  for (const [name, { original_len, original_sha256 }] of goodFrames) {
    const bytes = await decompress(read("z4ai", name));
    assert.equal(bytes.byteLength, original_len, name);
    assert.equal(sha256(bytes), original_sha256, name);
  }
});

test("the limit counts decoded bytes", async () => {
  const frame = await compress(new Uint8Array(5000));
  assert.equal((await decompress(frame, { maxBytes: 5000 })).byteLength, 5000);
  await assert.rejects(decompress(frame, { maxBytes: 4999 }), { name: "LimitError", code: "limit", message: /5000 bytes/ });
});

test("containers are for open()", async () => {
  const { container } = goodContainers[0];
  await assert.rejects(decompress(readFileSync(vectorPath("zstn", container.file))), { name: "UnsupportedError", message: /open\(\)/ });
});

const floats = new Uint8Array(Float32Array.from({ length: 30_000 }, (_, i) => Math.sin(i) / 50).buffer);

for (const effort of ["fast", "balanced", "max"]) {
  test(`compress with effort ${effort}: every dtype, and back`, async () => {
    for (const dtype of [undefined, "F32", "float32", "bf16", "U8", "F64", "F4", "fp8_e5m2"]) {
      const frame = await compress(floats, { effort, ...(dtype && { dtype }) });
      assert.deepEqual(await decompress(frame), floats, `${dtype}`);
      if (dtype === "F32") assert.ok(frame.byteLength < floats.byteLength * 0.9, `${frame.byteLength}`);
    }
  });
}

test("no bytes, few bytes, odd bytes, and an ArrayBuffer", async () => {
  for (const length of [0, 1, 2, 3, 7, 1001]) {
    const bytes = floats.slice(0, length);
    assert.deepEqual(await decompress(await compress(bytes.buffer, { dtype: "F32" })), bytes);
  }
});

for (const [what, call] of Object.entries({
  "a dtype that does not exist": () => compress(floats, { dtype: "F33" }),
  "an effort that does not exist": () => compress(floats, { effort: "heroic" }),
  "text instead of bytes": () => compress("bytes"),
  "nothing to decompress": () => decompress(undefined),
  "a limit that is no number of bytes": () => decompress(new Uint8Array(9), { maxBytes: -1 }),
})) {
  test(`${what} is invalid input`, async () => {
    await assert.rejects(call(), { name: "InvalidInputError", code: "invalid_input" });
  });
}
