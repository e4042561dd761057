/** Reads zTensor files of the released packages, tensor by tensor. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { open } from "zstn";
import { badZTensors, goodZTensors, isRefusal, refusalOf, sha256, vectorPath } from "../support/vectors.mjs";

test("the manifests hold what these tests are about", () => {
  assert.ok(goodZTensors.length > 15 && badZTensors.length > 20);
});

for (const { file, writer, truth, tensors } of goodZTensors) {
  test(`${file} by ${writer}`, async () => {
    const model = await open(vectorPath("ztensor", file));
    const expected = await open(vectorPath("ztensor", truth));
    assert.equal(model.kind, "ztensor");
    assert.deepEqual([...model.tensors.keys()].sort(), [...expected.tensors.keys()].sort());
    let bytes = 0;
    for (const { name, sha256: hash } of tensors) {
      const tensor = await model.tensor(name);
      const { dtype, shape, byteLength } = expected.tensors.get(name);
      assert.equal(tensor.dtype, dtype, name);
      assert.deepEqual(tensor.shape, shape, name);
      assert.deepEqual(tensor.data, (await expected.tensor(name)).data, name);
      assert.equal(sha256(tensor.bytes), hash, name);
      bytes += byteLength;
    }
    assert.equal(model.originalSize, bytes);
    assert.ok(model.stats.roundTrips <= 2 + tensors.length);
    model.close();
    expected.close();
  });
}

for (const vector of badZTensors) {
  test(`${vector.file} is refused: ${vector.why}`, async () => {
    await assert.rejects(readEverything(vectorPath("ztensor-bad", vector.file)), refusalOf(vector));
  });
}

test("every truncation is refused", async () => {
  for (const file of ["v01_py011_basic.zt", "v11_py111.zt"]) {
    const whole = readFileSync(vectorPath("ztensor", file));
    for (let length = 0; length < whole.length; length += 7) {
      await assert.rejects(readEverything(new Uint8Array(whole.subarray(0, length))), isRefusal, `${file} cut at ${length}`);
    }
  }
});

async function readEverything(openable) {
  const model = await open(openable);
  for (const name of model.tensors.keys()) await model.tensor(name);
}
