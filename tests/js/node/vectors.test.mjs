/** Reads the golden containers of the reference implementation, tensor by tensor. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { open } from "zstn";
import { badContainers, goodContainers, isRefusal, readableByName, refusalOf, sha256, vectorPath } from "../support/vectors.mjs";

const byName = goodContainers.filter(readableByName);
const notByName = goodContainers.filter((container) => !readableByName(container));

test("the manifests hold what these tests are about", () => {
  assert.ok(byName.length > 30 && notByName.length > 8 && badContainers.length > 40);
});

for (const container of byName) {
  test(`${container.name}: ${container.exercises}`, async () => {
    const model = await open(vectorPath("zstn", container.container.file));
    assert.equal(model.kind, "zstn");
    assert.equal(model.size, container.container.bytes);
    assert.deepEqual([...model.tensors.keys()].sort(), container.tensors.map(({ name }) => name).sort());
    for (const expected of container.tensors) {
      const info = model.tensors.get(expected.name);
      assert.equal(info.dtype, expected.dtype);
      assert.deepEqual(info.shape, expected.shape);
      assert.equal(info.byteLength, expected.data_offsets[1] - expected.data_offsets[0]);
      assert.equal(info.aliasOf, expected.kind === "REF" ? container.tensors[expected.ref_index].name : undefined);
      const tensor = await model.tensor(expected.name);
      assert.equal(sha256(tensor.bytes), expected.sha256, expected.name);
    }
    model.close();
  });

  test(`${container.name}: the original, not packed`, async () => {
    const model = await open(vectorPath("zstn", container.original.file));
    assert.equal(model.kind, "safetensors");
    for (const expected of container.tensors) {
      const info = model.tensors.get(expected.name);
      assert.equal(info.storedLength, info.byteLength);
      assert.equal(sha256((await model.tensor(expected.name)).bytes), expected.sha256, expected.name);
    }
    model.close();
  });
}

for (const container of notByName) {
  test(`${container.name} cannot be read by name: ${container.exercises}`, async () => {
    await assert.rejects(open(vectorPath("zstn", container.container.file)), isRefusal);
  });
}

for (const container of badContainers) {
  test(`${container.name} is refused: ${container.why}`, async () => {
    await assert.rejects(readEverything(vectorPath("zstn-bad", container.file)), refusalOf(container));
  });
}

async function readEverything(path) {
  const model = await open(path);
  for (const name of model.tensors.keys()) await model.tensor(name);
}
