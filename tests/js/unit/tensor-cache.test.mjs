import assert from "node:assert/strict";
import { test } from "node:test";
import { TensorCache } from "../../../wasm/dist/safetensors-view/tensor-cache.js";

/** Returns a cache of tensors of 10 bytes that finish decoding on command. `log` has the indices of the requested tensors. */
function slow(maxBytes) {
  const work = [];
  const decoded = new TensorCache(maxBytes, (index, signal) => {
    return new Promise((resolve, reject) => {
      work.push({ index, signal, finish: () => resolve(new Uint8Array(10).fill(index)), fail: reject });
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
  });
  return { work, log: () => work.map(({ index }) => index), get: (index, signal) => decoded.get(index, 10, signal) };
}

async function getNow(tensors, index) {
  const before = tensors.work.length;
  const bytes = tensors.get(index);
  for (const { finish } of tensors.work.slice(before)) finish();
  return bytes;
}

test("calls for one tensor share the work, and it is kept", async () => {
  const tensors = slow(100);
  const both = Promise.all([tensors.get(3), tensors.get(3)]);
  tensors.work[0].finish();
  const [a, b] = await both;
  assert.ok(a === b && a[0] === 3);
  assert.equal(await tensors.get(3), a);
  assert.deepEqual(tensors.log(), [3]);
});

test("what was used longest ago goes, what was used last stays whatever its size", async () => {
  const tensors = slow(20);
  for (const index of [1, 2, 1, 3, 1, 3]) await getNow(tensors, index);
  assert.deepEqual(tensors.log(), [1, 2, 3]);
  await getNow(tensors, 2);
  assert.deepEqual(tensors.log(), [1, 2, 3, 2], "2 had made room for 3");
  const none = slow(0);
  for (const index of [1, 1, 2, 2, 1]) await getNow(none, index);
  assert.deepEqual(none.log(), [1, 2, 1]);
});

test("one who gives up does not cost the others theirs; when all do, the work stops", async () => {
  const tensors = slow(100);
  const stop = new AbortController();
  const given = tensors.get(1, stop.signal);
  const patient = tensors.get(1);
  const reason = new Error("no longer");
  stop.abort(reason);
  await assert.rejects(given, (error) => error === reason);
  assert.equal(tensors.work[0].signal.aborted, false);
  tensors.work[0].finish();
  assert.equal((await patient)[0], 1);

  const other = new AbortController();
  const alone = tensors.get(2, other.signal);
  other.abort(reason);
  await assert.rejects(alone, (error) => error === reason);
  assert.equal(tensors.work[1].signal.aborted, true);
  assert.equal((await getNow(tensors, 2))[0], 2, "and it can be asked for again");
});

test("a failure is not kept", async () => {
  const tensors = slow(100);
  const first = tensors.get(1);
  tensors.work[0].fail(new Error("lost"));
  await assert.rejects(first, { message: "lost" });
  assert.equal((await getNow(tensors, 1))[0], 1);
});
