import assert from "node:assert/strict";
import { test } from "node:test";
import { Instance } from "../../../wasm/dist/instance.js";
import { RowPlanner } from "../../../wasm/dist/row-planner.js";

/** Returns a core whose tensor 3 has a block table at bytes 100 to 110 of file 1. */
function tabled() {
  const given = [];
  const core = {
    blockTable: (index) => Float64Array.from(index === 3 ? [1, 100, 10] : []),
    longerTable: () => [],
    part: (index, begin, end, table) => given.push([index, begin, end, table && [...table]]),
  };
  const reads = [];
  const source = { size: () => 1000, read: async (offset, length) => (reads.push([offset, length]), new Uint8Array(length).fill(9)) };
  const elsewhere = { size: () => 1000, read: async () => assert.fail("another file") };
  return { planner: new RowPlanner(new Instance(core, () => {}), core, [elsewhere, source]), given, reads };
}

test("the table of a tensor is read once", async () => {
  const { planner, given, reads } = tabled();
  await planner.plan(3, [0, 5], {});
  await planner.plan(3, [5, 9], {});
  assert.deepEqual(reads, [[100, 10]]);
  const table = new Array(10).fill(9);
  assert.deepEqual(given, [[3, 0, 5, table], [3, 5, 9, table]]);
});

test("a tensor without one that is missing reads nothing", async () => {
  const { planner, given, reads } = tabled();
  await planner.plan(2, [0, 5], {});
  assert.deepEqual([reads, given], [[], [[2, 0, 5, undefined]]]);
});

test("who gives up while the table comes gets no plan", async () => {
  const { planner, given } = tabled();
  const stop = new AbortController();
  const plan = planner.plan(3, [0, 5], { signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(plan, { message: "enough" });
  assert.deepEqual(given, []);
});
