/** The viewer's numbers: their computation and formatting, the sums of changes, and the arrangement of layers. */

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
const { ValueStats } = await load("engine/value-stats.ts");
const { Matrix } = await load("engine/matrix.ts");
const { aggregate } = await load("engine/aggregate.ts");
const { treeOf } = await load("tree/node.ts");
const { ratioOf } = await load("tree/rows.ts");
const { metricsOf } = await load("overview/picture/metric.ts");

test("only all is 100 %, only nothing is 0 %, and a bound is not approximate", () => {
  const shares = [0, 0.00005, 0.0123, 0.9994, 0.9996, 1, 2, 12.3];
  assert.deepEqual(shares.map(formatShare), ["0.00 %", "< 0.01 %", "1.23 %", "99.9 %", "> 99.9 %", "100 %", "200 %", "12×"]);
  assert.deepEqual([0.00005, 0.0123, 0.9996].map((share) => approximately(formatShare(share))), ["< 0.01 %", "≈ 1.23 %", "> 99.9 %"]);
});

test("quantised values count as their blocks: 34 bytes for 32 values of Q8_0", () => {
  const plain = { name: "a.q8", dtype: "F32", format: "Q8_0", shape: [32, 32], byteLength: 4096, originalLength: 1088, storedLength: 1088 };
  const packed = { ...plain, name: "a.packed", storedLength: 544 };
  const { originalBytes, storedBytes } = treeOf([plain, packed]);
  assert.deepEqual([originalBytes, storedBytes, ratioOf(plain), ratioOf(packed)], [2176, 1632, 1, 2]);
  const [size, bits] = ["size", "bits"].map((key) => metricsOf(undefined).find((metric) => metric.key === key).value);
  assert.deepEqual([size([plain]), bits([plain]), bits([packed]), bits([plain, packed])], [1088, 8.5, 4.25, 6.375]);
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

const float = (name, aliasOf) => ({ name, dtype: "F32", shape: [4], byteLength: 16, aliasOf });
const change = (name, compared, changed, squares, baseSquares, more = {}) => ({ name, exact: true, compared, changed, squares, baseSquares, gained: 0, lost: 0, numeric: true, groups: [], leftBytes: 0, ...more });

test("changes are those of floats; tied data counts once; complex elements are two values", () => {
  const tensors = [float("a"), float("b", "a"), { name: "c", dtype: "C64", shape: [4], byteLength: 32 }, { name: "i", dtype: "I64", shape: [100], byteLength: 800 }];
  const measured = new MeasuredChanges(new Map([["b", "a"]]));
  measured.add({ changes: [change("a", 4, 2, 1, 100), change("c", 8, 0, 0, 300), change("i", 100, 100, 0, 1e12)], fetchedBytes: 1 });
  const sum = measured.sum(tensors);
  assert.deepEqual([sum.changedShare, sum.relative], [{ value: 2 / 12 }, { value: Math.sqrt(1 / 400) }]);
  const alone = (number) => measured.sum([tensors[number]]);
  assert.deepEqual([alone(1).changedShare, alone(3).changedShare, alone(3).relative], [{ value: 0.5 }, { value: 1 }, undefined]);
});

test("digests decide what changed; a sample decides nothing; compared bytes count more than both", () => {
  const tensors = ["same", "other", "unseen", "unknown", "wrong"].map((name) => float(name));
  const [same, other, unseen, unknown, wrong] = tensors;
  const measured = new MeasuredChanges(new Map());
  assert.equal(measured.verdict(same), "undecided");
  measured.state([{ name: "same", isSame: true, baseSquares: 3 }, { name: "other", isSame: false }, { name: "unseen", isSame: false, baseSquares: 5 }, { name: "unknown" }, { name: "wrong", isSame: true }]);
  const sampled = { exact: false, groups: Array.from({ length: 8 }, () => ({ compared: 1, changed: 0, squares: 0, baseSquares: 1 })) };
  measured.add({ changes: [change("other", 4, 1, 4, 16), change("unseen", 2, 0, 0, 1, sampled), change("unknown", 2, 0, 0, 1, sampled), change("wrong", 4, 1, 1, 1)], fetchedBytes: 0 });
  assert.deepEqual(tensors.map((tensor) => measured.verdict(tensor)), ["same", "changed", "changed", "undecided", "changed"]);
  assert.deepEqual(tensors.map((tensor) => measured.isSettled(tensor)), [true, true, false, false, true]);
  assert.deepEqual([measured.has(unseen), measured.has(unknown), measured.has(wrong)], [false, true, true], "a change outside the sample has not been measured");
  assert.deepEqual(measured.sum([same, other]).relative, { value: Math.sqrt(4 / 19) }, "norms of unchanged tensors come from the file");
  assert.deepEqual(measured.sum([same, other, unseen], true).relative, { value: Math.sqrt(4 / 24) }, "without what was not measured it is a lower bound");
});

test("figures of a sample have the margin of its groups, and without groups there is none", () => {
  const measured = new MeasuredChanges(new Map());
  const groups = Array.from({ length: 8 }, (_, i) => ({ compared: 10, changed: i % 2 === 0 ? 10 : 0, squares: 1, baseSquares: 4 }));
  const tensor = { ...float("a"), shape: [800] };
  measured.add({ changes: [change("a", 80, 40, 8, 32, { exact: false, groups })], fetchedBytes: 0 });
  const { changedShare, relative } = measured.sum([tensor]);
  assert.ok(changedShare.value === 0.5 && changedShare.margin > 0.3, JSON.stringify(changedShare));
  assert.ok(relative.value === 0.5 && relative.margin < 1e-9, "all groups agree");
  measured.add({ changes: [change("a", 80, 40, 8, 32, { exact: false, groups: groups.slice(0, 1) })], fetchedBytes: 0 });
  assert.deepEqual([measured.sum([tensor]).changedShare, measured.sum([tensor]).relative], [undefined, undefined]);
});

test("values that became NaN are a change, whatever the norms say", () => {
  const measured = new MeasuredChanges(new Map());
  const [stated, seen, neither] = [float("stated"), float("seen"), float("neither")];
  measured.state([{ name: "stated", isSame: false, nonFinite: [1538, 0] }]);
  measured.add({ changes: [change("seen", 4, 2, 0, 1, { gained: 2 }), change("neither", 4, 1, 1, 1)], fetchedBytes: 0 });
  assert.match(measured.finiteness(stated).text, /1,538 NaN or ∞, 0 in the other model/);
  assert.match(measured.finiteness(seen).text, /^2 became NaN or ∞$/);
  assert.equal(measured.finiteness(neither), undefined);
});

test("statistics of 64-bit floats reach from the smallest to the largest", () => {
  const stats = new ValueStats();
  stats.add({ rowBegin: 0, rowEnd: 3, numbers: Float64Array.of(1e-310, 1e300, -0) });
  assert.deepEqual([stats.min, stats.max, stats.zeros, stats.finite], [-0, 1e300, 1, 3]);
  const close = (value, expected) => assert.ok(Math.abs(value / expected - 1) < 1e-12, `${value}, should be ${expected}`);
  close(stats.mean, 1e300 / 3);
  close(stats.norm, 1e300);
  close(stats.standardDeviation, (Math.sqrt(2) / 3) * 1e300);
  const { edges, counts } = stats.magnitudes();
  assert.deepEqual([edges.at(-1), counts.at(-1)], [996, 1], "1e300 is between 2^996 and 2^997");
  const { counts: bins, outside } = stats.histogram();
  assert.equal(bins.reduce((sum, count) => sum + count, outside), 2);
  const tiny = new ValueStats();
  tiny.add({ rowBegin: 0, rowEnd: 2, numbers: Float64Array.of(3e-310, 4e-310) });
  close(tiny.norm, 5e-310);
  const nothing = new ValueStats();
  nothing.add({ rowBegin: 0, rowEnd: 1, numbers: Float32Array.of(Number.NaN) });
  assert.deepEqual([nothing.mean, nothing.norm], [Number.NaN, Number.NaN], "no figure of no value");
});

test("pictures of values whose squares leave the range are of those values", () => {
  const picture = (numbers) => aggregate({ rows: 1, columns: numbers.length, cached: () => ({ rowBegin: 0, rowEnd: 1, numbers }) }, { rowBegin: 0, rowEnd: 1, columnBegin: 0, columnEnd: numbers.length }, { rowBegin: 0, rowEnd: 1, columnBegin: 0, columnEnd: numbers.length }, numbers.length, 1, true).levels;
  assert.deepEqual([...picture(Float64Array.of(1e300, -1e-300, Number.NaN, 2))], [1e300, 1e-300, Number.POSITIVE_INFINITY, 2]);
});

test("of a stack of matrices, the first one is sampled if it is short enough to be read without a question", async () => {
  const info = { name: "experts", dtype: "F32", format: "MXFP4", shape: [32, 3000, 2880], byteLength: 2 * 32 * 3000 * 2880, storedLength: 17 * 32 * 3000 * 90 };
  const sampleOf = async (bytes) => {
    const matrix = new Matrix({ info, plan: async () => ({ whole: false, bytes }), stored: async () => undefined });
    await matrix.prepare({ signal: new AbortController().signal, onStep: () => {} });
    return [matrix.isSmall, matrix.sample];
  };
  assert.deepEqual(await sampleOf(17 * 3000 * 90), [false, [[0, 3000]]]);
  assert.deepEqual(await sampleOf(17 << 20), [false, []]);
});

test("a part of the page that is not built yet is said to be that", async () => {
  globalThis.matchMedia = () => ({ addEventListener() {} });
  const [{ errorText }, { serializeError }] = [await load("page/error-text.ts"), await load("engine/serialized-error.ts")];
  const cause = new Error("this module is not built yet: wait until `cargo xtask demo` says so, or run `cargo xtask wasm`");
  const sent = serializeError(Object.assign(new Error("The WebAssembly module `formats` of zstn could not be loaded.", { cause }), { code: "core" }));
  assert.match(errorText(Object.assign(new Error(sent.message), sent)), /not built yet.*cargo xtask wasm/);
});

test("a picture of ten million rows takes as long as the rows in memory", () => {
  const [rows, columns] = [10_000_000, 4];
  const blocks = [0, 5_000_000, 9_999_990].map((rowBegin, i) => ({ rowBegin, rowEnd: rowBegin + 10, numbers: new Float64Array(10 * columns).fill(i + 1) }));
  let calls = 0;
  const reader = {
    columns,
    cached: (row) => (calls++, blocks.find(({ rowBegin, rowEnd }) => rowBegin <= row && row < rowEnd)),
    nextCached: (begin, end) => (calls++, blocks.reduce((next, { rowBegin, rowEnd }) => (rowEnd > begin ? Math.min(next, Math.max(begin, rowBegin)) : next), end)),
  };
  const area = { rowBegin: 0, rowEnd: rows, columnBegin: 0, columnEnd: columns };
  const { levels } = aggregate(reader, area, area, 1, 100, false);
  assert.deepEqual([levels[0], levels[50], levels[99]], [1, 2, 3]);
  assert.ok(calls < 2000, `${calls} rows were looked up`);
});
