import assert from "node:assert/strict";
import { test } from "node:test";
import { withCoalescing } from "../../../wasm/dist/source/merging/with-coalescing.js";
import { mergeRanges } from "../../../wasm/dist/source/merging/merge-ranges.js";

const file = Uint8Array.from({ length: 10_000 }, (_, i) => (i * 7) >> 3);
const LIMITS = { maxGapBytes: 100, maxMergedBytes: 1000 };

/** Returns a source that records its reads. `during` runs in each of them. */
function recorded(during = () => {}) {
  const reads = [];
  const read = async (offset, length, options) => {
    reads.push([offset, length]);
    await during(offset, length, options);
    return file.slice(offset, offset + length);
  };
  return { reads, source: withCoalescing({ size: () => file.length, read }, LIMITS) };
}

const spans = (ranges) => ranges.map(({ begin, end, reads }) => [begin, end, reads.length]);
const at = (begin, end) => ({ begin, end });

test("ranges by gap and by length, in the order of the file", () => {
  assert.deepEqual(spans(mergeRanges([at(500, 600), at(0, 10), at(110, 120), at(221, 230)], 100, 1000)), [[0, 120, 2], [221, 230, 1], [500, 600, 1]]);
  assert.deepEqual(spans(mergeRanges([at(0, 600), at(600, 1001)], 100, 1000)), [[0, 600, 1], [600, 1001, 1]], "too long together");
  assert.deepEqual(spans(mergeRanges([at(0, 600), at(600, 1000)], 0, 1000)), [[0, 1000, 2]], "neighbours, without any gap");
  assert.deepEqual(spans(mergeRanges([at(0, 10), at(11, 20)], 0, 1000)), [[0, 10, 1], [11, 20, 1]]);
});

test("a part of a read that is longer than any range comes with it", () => {
  assert.deepEqual(spans(mergeRanges([at(0, 5000), at(0, 5000), at(10, 20)], 100, 1000)), [[0, 5000, 3]]);
  assert.deepEqual(spans(mergeRanges([at(0, 10), at(0, 5000)], 100, 1000)), [[0, 5000, 2]], "the longer one leads");
});

test("whatever the spans, each is inside exactly one range, and ranges keep their limits", () => {
  let state = 7;
  const random = (limit) => ((state = (Math.imul(state, 1103515245) + 12345) >>> 0) >>> 8) % limit;
  for (let round = 0; round < 300; round++) {
    const all = Array.from({ length: random(20) }, () => ((begin) => at(begin, begin + 1 + random(400)))(random(5000)));
    const ranges = mergeRanges(all, 100, 1000);
    assert.deepEqual(new Set(ranges.flatMap(({ reads }) => reads)), new Set(all));
    for (const { begin, end, reads } of ranges) {
      assert.ok(reads.every((span) => begin <= span.begin && span.end <= end));
      assert.deepEqual([begin, end], [Math.min(...reads.map((span) => span.begin)), Math.max(...reads.map((span) => span.end))]);
      assert.ok(end - begin <= 1000);
      const inOrder = reads.toSorted((a, b) => a.begin - b.begin);
      let reached = begin;
      for (const span of inOrder) {
        assert.ok(span.begin - reached <= 100);
        reached = Math.max(reached, span.end);
      }
    }
  }
});

test("reads of one turn are one request; each gets its own copy", async () => {
  const { reads, source } = recorded();
  const [a, b, far] = await Promise.all([source.read(50, 20), source.read(0, 10), source.read(5000, 30)]);
  assert.deepEqual(reads, [[0, 70], [5000, 30]]);
  assert.deepEqual([a, b, far], [file.slice(50, 70), file.slice(0, 10), file.slice(5000, 5030)]);
  for (const bytes of [a, b, far]) assert.equal(bytes.buffer.byteLength, bytes.byteLength, "no view of something larger");
});

test("reads of later turns are requests of their own", async () => {
  const { reads, source } = recorded();
  await source.read(0, 10);
  await source.read(10, 10);
  assert.deepEqual(reads, [[0, 10], [10, 10]]);
});

test("one who gives up leaves the others alone; when all have, the request is stopped", async () => {
  const requests = [];
  let onRequest;
  const nextRequest = () => new Promise((resolve) => (onRequest = resolve));
  const { source } = recorded((_offset, _length, { signal }) => new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
    const request = { signal, finish: resolve };
    requests.push(request);
    onRequest(request);
  }));
  const [one, two] = [new AbortController(), new AbortController()];
  const reason = new Error("one gives up");
  const first = source.read(0, 10, { signal: one.signal });
  const second = source.read(10, 10, { signal: two.signal });
  const shared = await nextRequest();
  one.abort(reason);
  await assert.rejects(first, (error) => error === reason);
  assert.equal(shared.signal.aborted, false);
  shared.finish();
  assert.deepEqual(await second, file.slice(10, 20));

  const both = Promise.allSettled([source.read(0, 10, { signal: one.signal }), source.read(10, 10, { signal: two.signal }), source.read(20, 10, { signal: two.signal })]);
  const last = await nextRequest();
  two.abort(new Error("and two"));
  const settled = await both;
  assert.deepEqual(settled.map(({ reason }) => reason.message), ["one gives up", "and two", "and two"]);
  assert.equal(last.signal.aborted, true);
  assert.equal(requests.length, 2);
});

test("a read that was given up in time is never made", async () => {
  const { reads, source } = recorded();
  const stop = new AbortController();
  const given = source.read(0, 10, { signal: stop.signal });
  stop.abort();
  await assert.rejects(given, { name: "AbortError" });
  await source.read(20, 10);
  assert.deepEqual(reads, [[20, 10]]);
});

test("an error goes to all", async () => {
  const { source } = recorded(() => { throw new TypeError("lost"); });
  const settled = await Promise.allSettled([source.read(0, 10), source.read(10, 10)]);
  assert.deepEqual(settled.map(({ reason }) => reason.message), ["lost", "lost"]);
});

test("everyone hears of their own bytes, whether the source tells or not", async () => {
  for (const pieces of [[], [30, 25, 15], [70]]) {
    const { source } = recorded((_offset, _length, { onBytes }) => pieces.forEach((piece) => onBytes(piece)));
    const heard = { a: [], b: [] };
    await Promise.all([source.read(0, 20, { onBytes: (bytes) => heard.a.push(bytes) }), source.read(40, 30, { onBytes: (bytes) => heard.b.push(bytes) })]);
    const sum = (list) => list.reduce((total, bytes) => total + bytes, 0);
    assert.deepEqual([sum(heard.a), sum(heard.b)], [20, 30]);
    if (pieces.length === 3) assert.deepEqual(heard, { a: [20], b: [15, 15] });
  }
});

test("what one listener throws ends their read alone", async () => {
  const { source } = recorded((_offset, length, { onBytes }) => onBytes(length));
  const mine = new RangeError("no bar");
  const first = source.read(0, 10, { onBytes: () => { throw mine; } });
  const second = source.read(10, 10);
  await assert.rejects(first, (error) => error === mine);
  assert.deepEqual(await second, file.slice(10, 20));
});
