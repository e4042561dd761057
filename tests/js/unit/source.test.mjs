import assert from "node:assert/strict";
import { test } from "node:test";
import { withValidation } from "../../../wasm/dist/source/with-validation.js";
import { withStats } from "../../../wasm/dist/source/with-stats.js";
import { Traffic } from "../../../wasm/dist/source/traffic.js";
import { cost } from "../support/traffic.mjs";

const source = (over) => ({ size: () => 100, read: async (_offset, length) => new Uint8Array(length), ...over });

test("reads side by side are one round trip, reads one after the other are two", async () => {
  const traffic = new Traffic();
  const tallied = withStats(source(), traffic);
  await Promise.all([tallied.read(0, 10), tallied.read(10, 20)]);
  assert.deepEqual(cost(traffic), { requests: 2, roundTrips: 1, bytesFetched: 30 });
  await tallied.read(30, 5);
  assert.deepEqual(cost(traffic), { requests: 3, roundTrips: 2, bytesFetched: 35 });
});

test("bytes announced on the way are not counted twice", async () => {
  const traffic = new Traffic();
  const heard = [];
  const inPieces = source({
    read: async (_offset, length, { onBytes }) => {
      onBytes(4);
      onBytes(length - 4);
      return new Uint8Array(length);
    },
  });
  await withStats(inPieces, traffic).read(0, 10, { onBytes: (bytes) => heard.push(bytes) });
  assert.equal(traffic.bytesFetched, 10);
  assert.deepEqual(heard, [4, 6]);
});

test("a failed read is counted, and is over", async () => {
  const traffic = new Traffic();
  const failing = withStats(source({ read: () => Promise.reject(new Error("no")) }), traffic);
  await assert.rejects(failing.read(0, 1), { message: "no" });
  await assert.rejects(failing.read(0, 1), { message: "no" });
  assert.deepEqual(cost(traffic), { requests: 2, roundTrips: 2, bytesFetched: 0 });
});

test("a source that breaks its word is caught", async () => {
  const short = withValidation(source({ read: async () => new Uint8Array(3) }));
  await assert.rejects(short.read(5, 8), { name: "TruncatedError", code: "truncated", expectedBytes: 8, receivedBytes: 3 });
  const foreign = withValidation(source({ read: async () => [1, 2, 3] }));
  await assert.rejects(foreign.read(0, 3), { name: "InvalidInputError", message: /Uint8Array/ });
  for (const size of [-1, 1.5, Number.NaN, "100", undefined]) {
    await assert.rejects(withValidation(source({ size: () => size })).size(), { name: "InvalidInputError", message: /size/ });
  }
});

test("an aborted read is not started", async () => {
  let reads = 0;
  const watched = withValidation(source({ read: async () => { reads += 1; return new Uint8Array(1); } }));
  const reason = new Error("changed my mind");
  await assert.rejects(watched.read(0, 1, { signal: AbortSignal.abort(reason) }), (error) => error === reason);
  assert.equal(reads, 0);
});
