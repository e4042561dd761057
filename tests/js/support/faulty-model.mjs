/** A checkpoint for servers with faults: tensors with distinct bytes. */

import assert from "node:assert/strict";
import { safetensors } from "./checkpoint.mjs";
import { pattern } from "./fault-server.mjs";

const U8 = (length, seed) => ({ dtype: "U8", shape: [length], bytes: pattern(length, seed) });

/** Returns a version of the checkpoint. Another `seed` gives another version of the same length. */
export function checkpoint(seed = 1) {
  const tensors = { pad: U8(40_000, seed), a: U8(300_000, seed + 1), b: U8(2000, seed + 2), c: U8(2000, seed + 3), d: U8(2_000_000, seed + 4) };
  return { tensors, bytes: safetensors(tensors) };
}

/** Returns a version of the file with the properties that a server needs. */
export const version = (seed = 1, etag = `"v${seed}"`) => ({ ...checkpoint(seed), etag, lastModified: new Date(1.6e12 + seed * 1e6).toUTCString() });

/** Reads a tensor and compares it with the expected bytes and progress. */
export async function readAndCheck(model, file, name) {
  const heard = [];
  const tensor = await model.tensor(name, { onProgress: (progress) => heard.push(progress) });
  assert.ok(Buffer.from(tensor.bytes).equals(Buffer.from(file.tensors[name].bytes)), `the bytes of ${name}`);
  const { storedLength } = model.tensors.get(name);
  assert.equal(heard.at(-1).loadedBytes, storedLength, "every byte was announced once");
  assert.ok(heard.every(({ totalBytes }) => totalBytes === storedLength));
}
