/** Several servers at one address that give the same file different validators. */

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { memoryCache, open, pack } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { answer, pattern, startFaultServer } from "../support/fault-server.mjs";

/** The validators of a response, by type. Each function gets the number of the request. */
const VALIDATORS = {
  "strong ETags": (number) => ({ etag: `"${number}"` }),
  "weak ETags": (number) => ({ etag: `W/"${number}"` }),
  "Last-Modified": (number) => ({ lastModified: `Mon, 01 Jan 2024 00:00:${10 + number} GMT` }),
};

const NOT_COMPARED = / instead of .*; if several servers answer, download it first. Open it again\.$/;
const OTHER_BYTES = / instead of .*The bytes do not have the checksums in the file\.$/;

let plain;
let packed;
/** A tensor long enough to be stored in blocks that can be read separately. */
const x = pattern(1 << 20, 7).map((byte, i) => (i % 2 ? 56 + (byte & 3) : byte));
const y = Uint8Array.from({ length: 10_000 }, (_, i) => i >> 4);

before(async () => {
  plain = safetensors({ x: { dtype: "BF16", shape: [1 << 10, 1 << 9], bytes: x }, y: { dtype: "U8", shape: [100, 100], bytes: y } });
  const { blob } = await pack(new Blob([plain]));
  packed = new Uint8Array(await blob.arrayBuffer());
});

/**
 * Runs `work` with a server whose validators differ between responses. `bytesOf` returns the bytes of the file for the
 * request with a given number.
 */
async function against(validatorsOf, bytesOf, work) {
  const always = (request, response, { log }) => {
    delete request.headers["if-range"];
    answer(request, response, { bytes: bytesOf(log.length), ...validatorsOf(log.length) });
  };
  const server = await startFaultServer({}, { always });
  try {
    await work(server);
  } finally {
    await server.stop();
  }
}

for (const [what, validatorsOf] of Object.entries(VALIDATORS)) {
  test(`${what}: whole tensors are read, since they have checksums, and rows are not`, async () => {
    for (const verify of ["stored", "full"]) {
      await against(validatorsOf, () => packed, async ({ url }) => {
        const model = await open(url, { verify });
        await assert.rejects(model.tensor("x", { rows: [5, 10] }), { code: "changed", message: NOT_COMPARED });
        const read = await Promise.all([model.tensor("x"), model.tensor("y")]);
        for (const [i, bytes] of [x, y].entries()) assert.ok(Buffer.from(read[i].bytes).equals(bytes));
        for await (const tensor of model.stream(["y"])) assert.ok(Buffer.from(tensor.bytes).equals(y));
        // Rows of short tensors are cut from the whole.
        assert.deepEqual((await model.tensor("y", { rows: [5, 6] })).bytes, y.slice(500, 600));
      });
    }
  });

  test(`${what}: wrong bytes are a changed file`, async () => {
    for (const from of [2, 3]) {
      const wrong = packed.map((byte, i) => (i > 100 ? byte ^ 1 : byte));
      await against(validatorsOf, (number) => (number < from ? packed : wrong), async (server) => {
        const read = async () => (await open(server.url)).tensor("x");
        await assert.rejects(read(), { code: "changed", message: OTHER_BYTES });
        assert.ok(server.log.length <= 3, `${server.log.length} requests`);
      });
    }
  });

  test(`${what}: a plain file is not read`, async () => {
    await against(validatorsOf, () => plain, async (server) => {
      const model = await open(server.url);
      await assert.rejects(model.tensor("x"), { code: "changed", message: NOT_COMPARED });
      assert.equal(server.log.length, 2);
    });
  });
}

test("what a replica has sent is not cached under the ETag of another one", async () => {
  const wrong = packed.map((byte) => byte ^ 1);
  const cache = memoryCache(1 << 24);
  const validatorsOf = (number) => ({ etag: number === 3 ? '"2"' : '"1"' });
  await against(validatorsOf, (number) => (number === 3 ? wrong : packed), async ({ url }) => {
    const first = await open(url, { cache });
    await assert.rejects(first.tensor("x"), { code: "changed", message: OTHER_BYTES });
    const second = await open(url, { cache });
    assert.ok(Buffer.from((await second.tensor("x")).bytes).equals(x));
  });
});
