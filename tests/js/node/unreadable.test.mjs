/** A tensor of an unknown dtype is unreadable and does not affect others. Also tests the digests of tensors. */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { open, pack } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { pack as packByProgram } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const good = { dtype: "U8", shape: [4], bytes: Uint8Array.of(5, 6, 7, 8) };
const strange = (dtype, name = "a") => safetensors({ [name]: { dtype, shape: [3], bytes: Uint8Array.of(1, 2) }, b: good });

test("one unknown dtype makes one tensor unreadable", async () => {
  for (const dtype of ["FP4", "UE8", "", "x".repeat(500), "toString"]) {
    const model = await open(strange(dtype));
    assert.deepEqual([[...model.tensors.keys()], [...model.unreadable.keys()]], [["b"], ["a"]]);
    assert.deepEqual([...(await model.tensor("b")).data], [5, 6, 7, 8]);
    const refused = { code: "unsupported", tensor: "a", message: /^Tensor `a`: its dtype `.{0,40}` is unknown to this version/ };
    await assert.rejects(model.tensor("a"), refused);
    await assert.rejects(model.plan("a", { rows: [0, 1] }), refused);
    assert.throws(() => model.asSafetensorsBlob(), { code: "unsupported", message: /cannot be restored as a safetensors file/ }, "a gap would not be the original");
    assert.equal((await pack(strange(dtype))).indexed, false, "packed as a whole, so that nothing is lost");
  }
});

test("in shards, the index may name it, and another shard may have a readable tensor of that name", async () => {
  const files = { "one.safetensors": strange("FP4"), "two.safetensors": safetensors({ a: good, c: good }) };
  const index = (map) => new Blob([JSON.stringify({ weight_map: map })]);
  const siblings = (name) => new Blob([files[name]]);
  const named = await open(index({ a: "one.safetensors", b: "one.safetensors", c: "two.safetensors" }), { siblings });
  assert.deepEqual([[...named.tensors.keys()].sort(), [...named.unreadable.keys()]], [["b", "c"], ["a"]], "the index says which one is meant");
  const other = await open(index({ a: "two.safetensors", b: "one.safetensors" }), { siblings });
  assert.deepEqual([[...other.tensors.keys()].sort(), [...other.unreadable.keys()]], [["a", "b", "c"], []]);
});

test("digests are those that packed files and deltas state, and plain files state none", async () => {
  const folder = scratchFolder();
  const tensors = { a: { dtype: "F32", shape: [2], bytes: new Uint8Array(Float32Array.of(1, 2).buffer) }, b: good, tied: good };
  const write = (name, changed) => writeFileSync(join(folder, name), safetensors({ ...tensors, ...changed }));
  write("base.safetensors", {});
  write("tuned.safetensors", { b: { ...good, bytes: Uint8Array.of(5, 6, 7, 9) } });
  for (const name of ["base", "tuned"]) await packByProgram(join(folder, `${name}.safetensors`), join(folder, `${name}.zstn`));
  await packByProgram(join(folder, "tuned.safetensors"), join(folder, "tuned.z4dm"), { base: join(folder, "base.safetensors") });
  const digests = async (name, options) => {
    const model = await open(join(folder, name), options);
    return Object.fromEntries([...model.tensors].filter(([, { digest }]) => digest !== undefined).map(([name, { digest }]) => [name, digest]));
  };
  const base = await digests("base.zstn");
  assert.deepEqual(Object.keys(base), ["a", "b", "tied"]);
  for (const digest of Object.values(base)) assert.match(digest, /^[0-9a-f]{32}$/);
  assert.equal(base.b, base.tied);
  const tuned = await digests("tuned.zstn");
  assert.deepEqual([tuned.a === base.a, tuned.b === base.b, tuned.tied === base.tied], [true, false, true]);
  assert.deepEqual(await digests("tuned.z4dm", { base: join(folder, "base.safetensors") }), tuned);
  assert.deepEqual(await digests("base.safetensors"), {});
});
