/** Coalescing, caching and retries for every source: a source of the caller, a path, and a Blob that fetches its bytes. */

import assert from "node:assert/strict";
import fs from "node:fs/promises";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { mock, test } from "node:test";
import { folderCache, memoryCache, open, pack, withCache, withCoalescing, withRetry } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { pattern } from "../support/fault-server.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const names = Array.from({ length: 8 }, (_, i) => `t${i}`);
// The first tensor is longer than the bytes that opening reads.
const tensors = Object.fromEntries([["pad", 60_000], ...names.map((name) => [name, 50_000])].map(([name, length], i) => [name, { dtype: "U8", shape: [length], bytes: pattern(length, i + 1) }]));
const bytes = new Uint8Array(safetensors(tensors));
const scratch = scratchFolder();
const path = join(scratch, "model.safetensors");
writeFileSync(path, bytes);

const same = (tensor) => assert.deepEqual(tensor.bytes, new Uint8Array(tensors[tensor.name].bytes));

/** Returns a source that records its reads. `answer` may replace the result of a read. */
function counting(answer = (read) => read()) {
  const source = {
    reads: [],
    size: () => bytes.length,
    read: async (offset, length, options) => {
      source.reads.push({ offset, length, signal: options?.signal });
      return answer(() => bytes.slice(offset, offset + length), options, source.reads.length);
    },
  };
  return source;
}

async function readAll(model) {
  for (const tensor of await Promise.all(names.map((name) => model.tensor(name)))) same(tensor);
}

test("a source of one's own: tensors asked for together are one read, and a read each where that is not wanted", async () => {
  const source = counting();
  const model = await open(source);
  const opened = source.reads.length;
  await readAll(model);
  assert.deepEqual(source.reads.slice(opened).map(({ length }) => length), [8 * 50_000]);
  assert.equal(model.stats.requests, opened + 1, "reads of the source are counted, not those of tensors");

  const alone = counting();
  await readAll(await open(alone, { coalesce: false }));
  assert.equal(alone.reads.length, opened + 8);

  const apart = counting();
  const strict = await open(apart, { coalesce: { maxGapBytes: 0 } });
  await Promise.all(["t0", "t2"].map((name) => strict.tensor(name)));
  assert.equal(apart.reads.length, opened + 2);
  await assert.rejects(open(counting(), { coalesce: { maxGapBytes: -1 } }), { code: "invalid_input", message: /coalesce\.maxGapBytes/ });
});

test("a stream asks a source of one's own for many tensors at once", async () => {
  const source = counting();
  const model = await open(source);
  const opened = source.reads.length;
  for await (const tensor of model.stream(names)) same(tensor);
  assert.equal(source.reads.length, opened + 1);
});

test("bytes in memory are read one by one, as views that cost nothing", async () => {
  const model = await open(bytes);
  const opened = model.stats.requests;
  await readAll(model);
  assert.equal(model.stats.requests, opened + names.length);
});

test("a source of one's own hears of an abort once all callers of a merged read have given up", async () => {
  let hold = false;
  let asked;
  const source = counting((read, { signal }) => {
    if (!hold) return read();
    return new Promise((_, reject) => {
      asked(signal);
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
  });
  const model = await open(source);
  hold = true;
  const request = new Promise((resolve) => (asked = resolve));
  const stops = names.map(() => new AbortController());
  const reasons = stops.map((_, i) => new Error(`caller ${i}`));
  const reads = names.map((name, i) => assert.rejects(model.tensor(name, { signal: stops[i].signal }), (error) => error === reasons[i]));
  const signal = await request;
  for (const [i, stop] of stops.entries()) {
    assert.equal(signal.aborted, false);
    stop.abort(reasons[i]);
    await reads[i];
  }
  assert.equal(signal.aborted, true);

  const closing = new Promise((resolve) => (asked = resolve));
  const last = assert.rejects(model.tensor("t0"), { code: "closed" });
  const lastSignal = await closing;
  model.close();
  await last;
  assert.equal(lastSignal.aborted, true);
});

test("withCoalescing: what is read together is one read, for any caller", async () => {
  const source = counting();
  const merged = withCoalescing(source, { maxGapBytes: 10 });
  const [a, b, c] = await Promise.all([merged.read(0, 10), merged.read(20, 10), merged.read(41, 5)]);
  assert.deepEqual(source.reads.map(({ offset, length }) => [offset, length]), [[0, 30], [41, 5]]);
  assert.deepEqual([a, b, c], [bytes.slice(0, 10), bytes.slice(20, 30), bytes.slice(41, 46)]);
  assert.throws(() => withCoalescing(source, { maxMergedBytes: Number.NaN }), { code: "invalid_input" });
});

test("withCache: what was read under a key is not read again, in memory and on disk", async () => {
  for (const cache of [memoryCache(1 << 20), folderCache(join(scratch, "cache"))]) {
    const source = counting();
    const model = await open(withCache(source, cache, "model, version 1"), { coalesce: false });
    await readAll(model);
    const once = source.reads.length;
    await cache.flush?.();
    await readAll(model);
    assert.equal(source.reads.length, once);
    const later = counting();
    await readAll(await open(withCache(later, cache, "model, version 1"), { coalesce: false }));
    assert.equal(later.reads.length, 0, "another source with that key");
    await readAll(await open(withCache(later, cache, "model, version 2"), { coalesce: false }));
    assert.equal(later.reads.length, once, "another key is another file");
  }
});

test("withRetry: a read that failed is made again, up to a limit, and what came before is announced once", async () => {
  const failure = new TypeError("fetch failed");
  const source = counting((read, { onBytes }, count) => {
    onBytes(count === 1 ? 6 : 4);
    if (count < 3) throw failure;
    onBytes(6);
    return read();
  });
  const heard = [];
  assert.deepEqual(await withRetry(source).read(0, 10, { onBytes: (more) => heard.push(more) }), bytes.slice(0, 10));
  assert.equal(source.reads.length, 3);
  assert.deepEqual(heard, [6, 4]);

  const broken = counting(() => { throw failure; });
  await assert.rejects(withRetry(broken, { retries: 1 }).read(0, 10), (error) => error === failure);
  assert.equal(broken.reads.length, 2);
  await assert.rejects(withRetry(broken, { retries: 0 }).read(0, 10), (error) => error === failure);
  assert.equal(broken.reads.length, 3);
  await assert.rejects(withRetry(broken, { shouldRetry: (error) => error !== failure }).read(0, 10), (error) => error === failure);
  assert.equal(broken.reads.length, 4);
  assert.throws(() => withRetry(broken, { retries: -1 }), { code: "invalid_input" });
});

test("withRetry: a read that is too short counts as failed; one of the wrong kind is not repeated", async () => {
  const short = counting((read, _options, count) => (count === 1 ? read().subarray(1) : read()));
  assert.deepEqual(await withRetry(short).read(0, 10), bytes.slice(0, 10));
  assert.equal(short.reads.length, 2);
  const wrong = counting(() => "text");
  await assert.rejects(withRetry(wrong).read(0, 10), { code: "invalid_input" });
  assert.equal(wrong.reads.length, 1);
});

test("withRetry: an abort ends the attempts, and is seen by the source", async () => {
  const stop = new AbortController();
  const reason = new Error("enough");
  const source = counting((_read, { signal }) => {
    assert.equal(signal, stop.signal);
    stop.abort(reason);
    throw new TypeError("fetch failed");
  });
  await assert.rejects(withRetry(source).read(0, 10, { signal: stop.signal }), (error) => error === reason);
  assert.equal(source.reads.length, 1);
});

/** A Blob that fetches nothing until a slice is read, as the Blobs of model hubs do. */
class LazyBlob extends Blob {
  constructor(fetched, begin = 0, end = bytes.length) {
    super([]);
    Object.assign(this, { fetched, begin, end });
  }
  get size() {
    return this.end - this.begin;
  }
  slice(begin, end) {
    return new LazyBlob(this.fetched, this.begin + begin, this.begin + end);
  }
  arrayBuffer() {
    return new Response(this.stream()).arrayBuffer();
  }
  stream() {
    const request = { length: this.size, cancelled: false };
    this.fetched.requests.push(request);
    return new ReadableStream({
      pull: async (controller) => {
        if (await this.fetched.before?.(request)) return;
        const half = this.begin + Math.ceil(this.size / 2);
        controller.enqueue(bytes.slice(this.begin, half));
        controller.enqueue(bytes.slice(half, this.end));
        controller.close();
      },
      cancel: () => void (request.cancelled = true),
    });
  }
}

test("a Blob that fetches: one fetch for tensors asked for together, which an abort stops", async () => {
  const fetched = { requests: [] };
  const model = await open(new LazyBlob(fetched));
  const opened = fetched.requests.length;
  await readAll(model);
  assert.deepEqual(fetched.requests.slice(opened).map(({ length }) => length), [8 * 50_000]);

  let asked;
  const started = new Promise((resolve) => (asked = resolve));
  fetched.before = () => (asked(), new Promise(() => {}));
  const stop = new AbortController();
  const reading = assert.rejects(model.tensor("t0", { signal: stop.signal }), { name: "AbortError" });
  await started;
  stop.abort();
  await reading;
  assert.equal(fetched.requests.at(-1).cancelled, true);
});

test("a Blob that fetches and fails says why, not that a file was changed", async () => {
  const fetched = { requests: [], before: () => { throw new Error("status 401"); } };
  await assert.rejects(open(new LazyBlob(fetched)), { code: "read", message: "Could not read the Blob: status 401 (Tried 4 times.)" });
});

for (const [what, file, error, message] of [
  ["a file that was changed", new File([bytes], "a.safetensors"), new DOMException("no", "NotReadableError"), /the file a\.safetensors\. If it was changed or moved, choose it again/],
  ["a file that cannot be read otherwise", new File([bytes], "a.safetensors"), new DOMException("no memory", "QuotaExceededError"), /the file a\.safetensors: no memory$/],
  ["a Blob", new Blob([bytes]), new DOMException("it is gone", "NotReadableError"), /the Blob: it is gone$/],
]) {
  test(`${what} is said to be that`, async () => {
    const { slice } = file;
    mock.method(Blob.prototype, "arrayBuffer", () => Promise.reject(error));
    try {
      assert.equal(slice, Blob.prototype.slice);
      await assert.rejects(open(file), { name: "ReadError", code: "read", message, cause: error });
    } finally {
      mock.restoreAll();
    }
  });
}

/** Runs `work` and counts the calls of node:fs/promises that this package makes. */
async function countedCalls(work) {
  const calls = { open: mock.method(fs, "open"), stat: mock.method(fs, "stat") };
  syncBuiltinESMExports();
  try {
    await work();
    return { open: calls.open.mock.callCount(), stat: calls.stat.mock.callCount() };
  } finally {
    mock.restoreAll();
    syncBuiltinESMExports();
  }
}

test("a path: the file is opened once, however many tensors are read one after the other, and read once for those asked for together", async () => {
  let model;
  const one = await countedCalls(async () => {
    model = await open(path, { workers: 0 });
    for (const name of names) same(await model.tensor(name));
  });
  assert.equal(one.open, 1);
  const before = model.stats.requests;
  const together = await countedCalls(() => readAll(model));
  assert.deepEqual([model.stats.requests, together.stat], [before + 1, 1]);
});

test("a file that takes the place of an open one is noticed", async () => {
  const [old, other] = [join(scratch, "old"), join(scratch, "new")];
  writeFileSync(old, bytes);
  writeFileSync(other, bytes);
  const model = await open(old);
  same(await model.tensor("t0"));
  renameSync(other, old);
  await assert.rejects(model.tensor("t1"), { code: "changed" });
  same(await (await open(old)).tensor("t1"));
  await fs.rm(old);
  await assert.rejects(open(old), { code: "read", message: /does not exist/ });
});

test("packing takes wrapped sources, too", async () => {
  const flaky = counting((read, _options, count) => {
    if (count === 1) throw new TypeError("fetch failed");
    return read();
  });
  const { blob } = await pack(withRetry(flaky));
  assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), new Uint8Array(await (await pack(readFileSync(path))).blob.arrayBuffer()));
});
