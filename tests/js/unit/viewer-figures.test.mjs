/** What the viewer writes about numbers, what it sums up of changes, and how it arranges layers. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

async function load(path) {
  const { outputFiles } = await build({ entryPoints: [fileURLToPath(new URL(`../../../web-demo/src/${path}`, import.meta.url))], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

const { formatShare, approximately } = await load("page/format.ts");
const { stacksOf } = await load("overview/layers/stacks.ts");
const { scaleOf } = await load("overview/picture/scale.ts");
const { MeasuredChanges } = await load("overview/changes/measured.ts");

test("only all is 100 %, only nothing is 0 %, and a bound is not approximate", () => {
  const shares = [0, 0.00005, 0.0123, 0.9994, 0.9996, 1, 2, 12.3];
  assert.deepEqual(shares.map(formatShare), ["0.00 %", "< 0.01 %", "1.23 %", "99.9 %", "> 99.9 %", "100 %", "200 %", "12×"]);
  assert.deepEqual([0.00005, 0.0123, 0.9996].map((share) => approximately(formatShare(share))), ["< 0.01 %", "≈ 1.23 %", "> 99.9 %"]);
});

test("only experts share a cell, and kinds without a column are counted", () => {
  const tensors = [0, 1].flatMap((block) => [...[0, 1].flatMap((layer) => [`b.${block}.layer.${layer}.norm`, `b.${block}.experts.${layer}.up`]), ...Array.from({ length: 70 }, (_, i) => `b.${block}.k${i}`)]).map((name) => ({ name, shape: [2, 2] }));
  const { stacks, outside } = stacksOf([...tensors, { name: "head.weight", shape: [2] }]);
  const kinds = stacks[0].columns.map(({ kind }) => kind);
  assert.deepEqual(kinds.slice(0, 3), ["layer.0.norm", "experts.*.up", "layer.1.norm"]);
  assert.equal(kinds.length + stacks[0].moreKinds, 73);
  assert.deepEqual(outside.map(({ name }) => name), ["head.weight"]);
});

test("an extreme value does not take the scale", () => {
  const values = Array.from({ length: 200 }, (_, i) => ({ value: 1 + i / 100, isOutlier: false }));
  const { ticks, isExceeded, isUndercut } = scaleOf("linear", [...values, { value: 1000, isOutlier: false }]);
  assert.ok(ticks.at(-1) < 3 && isExceeded && isUndercut, String(ticks));
  const { at } = scaleOf("root", [...Array.from({ length: 200 }, () => ({ value: 0, isOutlier: false })), { value: 4, isOutlier: false }]);
  assert.deepEqual([at(0), at(1), at(4)], [0, 0.5, 1], "what did not change is not all of it");
});

test("changes are those of floats; tied data counts once; complex elements are two values", () => {
  const float = (name, aliasOf) => ({ name, dtype: "F32", shape: [4], byteLength: 16, aliasOf });
  const tensors = [float("a"), float("b", "a"), { name: "c", dtype: "C64", shape: [4], byteLength: 32 }, { name: "i", dtype: "I64", shape: [100], byteLength: 800 }];
  const measured = new MeasuredChanges(new Map([["b", "a"]]));
  const change = (name, compared, changed, squares, baseSquares) => ({ name, exact: true, compared, changed, squares, baseSquares, numeric: true });
  measured.add({ changes: [change("a", 4, 2, 1, 100), change("c", 8, 0, 0, 300), change("i", 100, 100, 0, 1e12)], fetchedBytes: 1 });
  const sum = measured.sum(tensors);
  assert.deepEqual([sum.values, sum.changedShare, sum.relative], [12, 2 / 12, Math.sqrt(1 / 400)]);
  assert.deepEqual([measured.sum([tensors[1]]).changedShare, measured.sum([tensors[3]]).changedShare, measured.sum([tensors[3]]).relative], [0.5, 1, undefined]);
});
