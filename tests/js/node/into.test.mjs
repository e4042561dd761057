/** Decodes tensors into memory of the caller. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, workerPool } from "zstn";
import { goodContainers, vectorPath } from "../support/vectors.mjs";

const { container, original } = goodContainers.find(({ name }) => name === "all_dtypes");

for (const [how, file, workers] of [["inline", container.file, 0], ["by workers", container.file, workerPool({ size: 1, minBytes: 0 })], ["from a plain file", original.file, 0]]) {
  test(`${how}: the array, and at its beginning the tensor`, async () => {
    const model = await open(vectorPath("zstn", file), { workers });
    for (const [name, { byteLength }] of model.tensors) {
      const expected = await model.tensor(name);
      const into = new Uint8Array(byteLength + 24).fill(0xa5);
      const tensor = await model.tensor(name, { into });
      assert.equal(tensor.data.buffer, into.buffer, name);
      assert.deepEqual([tensor.data, tensor.dtype, tensor.shape], [expected.data, expected.dtype, expected.shape], name);
      assert.ok(into.subarray(byteLength).every((byte) => byte === 0xa5), "what is behind it is left alone");
    }
    const [rows] = model.tensors.get("t.f32").shape;
    const part = new Float32Array(100);
    const some = await model.tensor("t.f32", { rows: [1, rows], into: part });
    assert.equal(some.data.buffer, part.buffer);
    assert.deepEqual(some.data, (await model.tensor("t.f32")).data.slice(-some.data.length));
    const floats = new Float32Array(104);
    const tensor = await model.tensor("t.f32", { into: floats.subarray(4) });
    assert.deepEqual(floats.subarray(4), tensor.data);
    assert.equal((await model.tensor("t.f32", { into: floats.buffer })).data.byteOffset, 0);
    model.close();
    if (typeof workers !== "number") workers.close();
  });
}

test("memory that is too short or badly placed is refused, and nothing is read", async () => {
  const model = await open(vectorPath("zstn", container.file));
  const { requests } = model.stats;
  await assert.rejects(model.tensor("t.f32", { into: new Float32Array(99) }), { code: "invalid_input", message: /t\.f32 has 400 bytes; `into` has 396/ });
  await assert.rejects(model.tensor("t.f32", { into: new Uint8Array(500).subarray(2) }), { code: "invalid_input", message: /multiple of 4/ });
  assert.equal(model.stats.requests, requests);
  model.close();
});
