/** Packing needs memory for one tensor and its base, not for whole files. The tests run in a module with little memory. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";
import { compressDelta, configure, open, pack } from "zstn";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { withLittleMemory } from "../support/little-memory.mjs";

const MORE_BYTES = 48 << 20;
const TENSOR_BYTES = 4 << 20;

before(async () => {
  const module = await readFile(new URL(import.meta.resolve("zstn/zstn_coder_bg.wasm")));
  configure({ wasm: { coder: withLittleMemory(module, MORE_BYTES) } });
});

const random = xorshift(11);
const bf16 = (bytes) => ({ dtype: "BF16", shape: [bytes.byteLength / 2], bytes });
const tuned = ({ bytes }) => bf16(bytes.map((byte, i) => (i % 300 === 0 ? byte ^ 1 : byte)));
const tensors = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`t${i}`, bf16(bf16Tensor(TENSOR_BYTES / 2, random))]));
const base = safetensors(tensors);
const target = safetensors(Object.fromEntries(Object.entries(tensors).map(([name, tensor], i) => [name, i % 3 === 0 ? tensor : tuned(tensor)])));

test("files larger than the memory are packed against each other, into a Blob and into a stream", async () => {
  assert.ok(base.length > MORE_BYTES * 1.5);
  const { blob, size } = await pack(target, { base });
  let streamedBytes = 0;
  await pack(target, { base, to: new WritableStream({ write: (piece) => void (streamedBytes += piece.byteLength) }) });
  assert.equal(streamedBytes, size);
  const model = await open(blob, { base });
  assert.ok(Buffer.from(await model.asSafetensorsBlob().bytes()).equals(target));
});

test("a tensor that does not fit is refused before the memory runs out, and smaller ones are packed after it", async () => {
  const large = bf16(bf16Tensor((9 << 20) / 2, random));
  const refused = { name: "LimitError", code: "limit", message: /more than WebAssembly has memory to pack/ };
  const files = [tuned(large), large].map((tensor) => safetensors({ large: tensor }));
  await assert.rejects(pack(files[0], { base: files[1] }), refused);
  await assert.rejects(compressDelta(tuned(large).bytes, large.bytes), refused);
  const { tensors } = await pack(files[1], { base: files[1] });
  assert.equal(tensors[0].base, "copy", "an equal one takes no more than its own");
  assert.equal((await pack(target, { base })).tensors.length, 20);
});
