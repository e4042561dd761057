/** Single frames and deltas: all golden ones decode, and new ones are restored by this package and by the command line. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { compress, compressDelta, decompress, decompressDelta } from "zstn";
import { xorshift } from "../support/checkpoint.mjs";
import { compressFile, decompressFile } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { badBufferDeltas, goodBufferDeltas, goodContainers, goodFrames, isRefusal, refusalOf, sha256, vectorPath } from "../support/vectors.mjs";

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

const tuned = floats.map((byte, i) => (i % 400 === 0 ? byte ^ 1 : byte));
const vector = ({ file }) => new Uint8Array(readFileSync(vectorPath("zstn", file)));

test("every golden difference decodes byte for byte", async () => {
  assert.equal(goodBufferDeltas.length, 12);
  for (const { name, container, reference, current } of goodBufferDeltas) {
    assert.deepEqual(await decompressDelta(vector(container), vector(reference)), vector(current), name);
  }
});

test("every malformed difference is refused for its rule", async () => {
  const bad = ({ file }) => new Uint8Array(readFileSync(vectorPath("zstn-bad", file)));
  assert.ok(badBufferDeltas.length >= 5, `${badBufferDeltas.length}`);
  for (const entry of badBufferDeltas) await assert.rejects(decompressDelta(bad(entry), bad(entry.reference)), refusalOf(entry), entry.name);
});

for (const effort of ["fast", "balanced", "max"]) {
  test(`compressDelta with effort ${effort}: every dtype, and back`, async () => {
    for (const dtype of [undefined, "F32", "float32", "bf16", "U8", "F64"]) {
      const frame = await compressDelta(tuned, floats, { effort, ...(dtype && { dtype }) });
      assert.deepEqual(await decompressDelta(frame, floats), tuned, `${dtype}`);
      assert.ok(frame.byteLength < tuned.byteLength / 50, `${frame.byteLength}`);
    }
    assert.deepEqual(await decompressDelta(await compressDelta(tuned, tuned, { effort }), tuned), tuned);
  });
}

test("differences from and for the command line", async () => {
  const folder = scratchFolder();
  const at = (name) => join(folder, name);
  writeFileSync(at("tuned"), tuned);
  writeFileSync(at("base"), floats);
  writeFileSync(at("ours.z4dl"), await compressDelta(tuned.buffer, floats.buffer, { dtype: "F32" }));
  await decompressFile(at("ours.z4dl"), at("restored"), { base: at("base") });
  assert.deepEqual(new Uint8Array(readFileSync(at("restored"))), tuned);
  await compressFile(at("tuned"), at("native.z4dl"), { base: at("base"), dtype: "F32" });
  assert.deepEqual(await decompressDelta(new Uint8Array(readFileSync(at("native.z4dl"))), floats), tuned);
  // Noise leaves an encoder no choice, so all encoders write the same bytes.
  const random = xorshift(7);
  const [noise, other] = [1, 2].map(() => Uint8Array.from({ length: 5000 }, random));
  writeFileSync(at("tuned"), noise);
  writeFileSync(at("base"), other);
  await compressFile(at("tuned"), at("native.z4dl"), { base: at("base") });
  assert.deepEqual(Buffer.from(await compressDelta(noise, other)), readFileSync(at("native.z4dl")));
});

test("a base that is not the one, or not as long", async () => {
  const frame = await compressDelta(tuned, floats);
  await assert.rejects(decompressDelta(frame, tuned), { name: "WrongBaseError", rule: "delta.reference", message: /another base/ });
  await assert.rejects(decompressDelta(frame, floats.subarray(1)), { name: "WrongBaseError", rule: "delta.reference", message: /120000 bytes/ });
  await assert.rejects(compressDelta(tuned, floats.subarray(1)), { name: "InvalidInputError", message: /120000 bytes, the base has 119999/ });
  await assert.rejects(decompress(frame), { code: "unsupported", message: /decompressDelta/ });
  await assert.rejects(decompressDelta(await compress(tuned), floats), { name: "FormatError", rule: "delta.magic" });
  await assert.rejects(decompressDelta(frame, floats, { maxBytes: tuned.byteLength - 1 }), { name: "LimitError", message: /120000 bytes/ });
  const { container } = goodContainers[0];
  await assert.rejects(decompressDelta(readFileSync(vectorPath("zstn", container.file)), floats), { name: "UnsupportedError", message: /open\(\)/ });
});

test("every flipped bit and every cut of a difference is refused, or harmless", async () => {
  const [current, base] = [tuned.subarray(0, 1200), floats.subarray(0, 1200)];
  const frame = await compressDelta(current, base, { dtype: "F32" });
  let refused = 0;
  const attempt = async (bytes) => {
    try {
      return await decompressDelta(bytes, base);
    } catch (error) {
      isRefusal(error);
      refused += 1;
    }
  };
  for (let length = 0; length < frame.length; length++) await attempt(frame.subarray(0, length));
  assert.equal(refused, frame.length, "every cut shows");
  for (let bit = 0; bit < frame.length * 8; bit++) {
    const flipped = frame.slice();
    flipped[bit >> 3] ^= 1 << (bit & 7);
    const bytes = await attempt(flipped);
    if (bytes) assert.equal(bytes.byteLength, current.byteLength);
  }
  // Length and digest of the base precede the frame, and most of the frame is metadata.
  assert.ok(refused > frame.length + 30 * 8, `${refused}`);
});

for (const [what, call] of Object.entries({
  "a dtype that does not exist": () => compress(floats, { dtype: "F33" }),
  "an effort that does not exist": () => compress(floats, { effort: "heroic" }),
  "text instead of bytes": () => compress("bytes"),
  "nothing to decompress": () => decompress(undefined),
  "text instead of a base": () => compressDelta(floats, "bytes"),
  "no base": () => decompressDelta(floats),
  "a difference of a dtype that does not exist": () => compressDelta(floats, floats, { dtype: "F33" }),
  "a limit that is no number of bytes": () => decompress(new Uint8Array(9), { maxBytes: -1 }),
})) {
  test(`${what} is invalid input`, async () => {
    await assert.rejects(call(), { name: "InvalidInputError", code: "invalid_input" });
  });
}
