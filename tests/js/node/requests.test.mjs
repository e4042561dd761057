/** The requests and bytes for listing a large model and reading one of its tensors, counted by the server. */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { pack, serve } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const COUNT = 10_000;
const scratch = scratchFolder();
const nameOf = (i) => `model.layers.${Math.floor(i / 10)}.block.${i % 10}.weight`;
/** The values of a tensor. All tensors differ, since equal ones would be stored once. */
const valuesOf = (i) => Float32Array.from({ length: 8 }, (_, j) => i + j / 8);
let server;

before(async () => {
  const entries = Array.from({ length: COUNT }, (_, i) => [nameOf(i), { dtype: "F32", shape: [2, 4], bytes: new Uint8Array(valuesOf(i).buffer) }]);
  writeFileSync(join(scratch, "m.safetensors"), safetensors(Object.fromEntries(entries)));
  await pack(join(scratch, "m.safetensors"), join(scratch, "m.zstn"));
  server = await serve(scratch);
});
after(() => server?.stop());

for (const file of ["m.safetensors", "m.zstn"]) {
  test(`${file}: ${COUNT} tensors are known after two requests, one more for a tensor`, async (t) => {
    const first = server.requests.length;
    const model = await open(`${server.url}${file}`);
    assert.equal(model.tensors.size, COUNT);
    assert.deepEqual(model.tensors.get(nameOf(7777)).shape, [2, 4]);
    t.diagnostic(`${model.stats.requests} requests, ${model.stats.bytesFetched} bytes to list them`);
    assert.deepEqual([model.stats.requests, model.stats.roundTrips], [2, 2]);
    const opened = model.stats.requests;
    assert.deepEqual((await model.tensor(nameOf(7777))).data, valuesOf(7777));
    assert.deepEqual([model.stats.requests, model.stats.roundTrips], [opened + 1, 3]);
    const log = await server.settled(first + opened + 1);
    assert.equal(log.length - first, opened + 1, "the server counts the same");
    assert.ok(log.slice(first).every(({ method, status }) => method === "GET" && status === 206));
  });
}
