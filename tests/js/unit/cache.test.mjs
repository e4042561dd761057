import assert from "node:assert/strict";
import { test } from "node:test";
import { memoryCache } from "zstn";
import { cachedSource } from "../../../wasm/dist/source/cache/with-cache.js";
import { entryBytes, entryHeader, entryName, keyHash } from "../../../wasm/dist/source/cache/entry.js";
import { storedCache } from "../../../wasm/dist/source/cache/stored-cache.js";
import { Traffic } from "../../../wasm/dist/source/traffic.js";

const bytes = (length, value = 7) => new Uint8Array(length).fill(value);

test("memory: exact ranges, parts of them, other keys", async () => {
  const cache = memoryCache(1000);
  const file = Uint8Array.from({ length: 100 }, (_, i) => i);
  await cache.put("k", 50, file);
  assert.equal(await cache.get("k", 50, 100), file);
  assert.deepEqual(await cache.get("k", 60, 5), file.slice(10, 15));
  for (const [key, offset, length] of [["k", 49, 5], ["k", 149, 2], ["k", 50, 101], ["j", 50, 100]]) assert.equal(await cache.get(key, offset, length), undefined);
});

test("memory: what was used longest ago goes first, and the limit holds", async () => {
  const cache = memoryCache(300);
  for (const offset of [0, 100, 200]) await cache.put("k", offset, bytes(100));
  await cache.get("k", 0, 100);
  await cache.put("k", 300, bytes(150));
  const held = await Promise.all([0, 100, 200].map((offset) => cache.get("k", offset, 100)));
  assert.deepEqual(held.map(Boolean), [true, false, false]);
  await cache.put("k", 900, bytes(301));
  assert.equal(await cache.get("k", 900, 301), undefined, "larger than the cache");
  assert.ok(await cache.get("k", 300, 150), "and nothing was dropped for it");
});

test("memory: every range within an entry is found, and no other", async () => {
  const maxBytes = 10_000;
  const cache = memoryCache(maxBytes);
  let seed = 7;
  const random = (end) => Math.floor((((seed = (Math.imul(seed, 1103515245) + 12345) >>> 1) % 65_536) / 65_536) * end);
  const valueAt = (key, i) => (i * 31 + key.length) % 251;
  // Two files in ranges of very different lengths.
  const ranges = ["k", "key"].flatMap((key) => {
    const all = [];
    for (let offset = 0; offset < 20_000; offset = all.at(-1).end) all.push({ key, offset, end: offset + 1 + random([3, 70, 900][random(3)]) });
    return all;
  });
  // The ranges that the cache has, least recently used first.
  const held = [];
  for (let round = 0; round < 5000; round++) {
    const range = ranges[random(ranges.length)];
    const begin = range.offset + random(range.end - range.offset);
    // Some lookups reach into the next range.
    const length = 1 + random(range.end - begin + 2);
    const found = await cache.get(range.key, begin, length);
    const at = held.indexOf(range);
    assert.equal(found !== undefined, at >= 0 && begin + length <= range.end, `${range.key}: ${begin}+${length}`);
    if (found) {
      assert.deepEqual(found, Uint8Array.from({ length }, (_, i) => valueAt(range.key, begin + i)));
      held.push(...held.splice(at, 1));
    } else if (at < 0) {
      await cache.put(range.key, range.offset, Uint8Array.from({ length: range.end - range.offset }, (_, i) => valueAt(range.key, range.offset + i)));
      held.push(range);
      while (held.reduce((sum, { offset, end }) => sum + end - offset, 0) > maxBytes) held.shift();
    }
  }
  assert.ok(held.length > 20);
});

test("memory: ranges that overlap", async () => {
  const cache = memoryCache(300);
  const file = Uint8Array.from({ length: 400 }, (_, i) => i % 251);
  for (let round = 0; round < 300; round++) {
    const [offset, length] = [(round * 37) % 250, 1 + ((round * 53) % 150)];
    await cache.put("k", offset, file.slice(offset, offset + length));
    assert.deepEqual(await cache.get("k", offset, length), file.subarray(offset, offset + length));
    const other = await cache.get("k", offset + 5, length);
    if (other) assert.deepEqual(other, file.slice(offset + 5, offset + 5 + length));
  }
});

test("memory: a view is kept as a copy, not with all that is behind it", async () => {
  const cache = memoryCache(1000);
  await cache.put("k", 0, bytes(100_000).subarray(0, 10));
  assert.equal((await cache.get("k", 0, 10)).buffer.byteLength, 10);
});

for (const limit of [-1, Number.NaN, "many", undefined]) test(`memory: no limit of ${limit}`, () => assert.throws(() => memoryCache(limit), { code: "invalid_input" }));

test("a cache that fails, or gives nonsense, is as good as none", async () => {
  const source = { size: () => 100, read: async (_offset, length) => bytes(length) };
  const fail = () => Promise.reject(new Error("disk on fire"));
  for (const get of [fail, async () => bytes(3), async () => "text", async () => null]) {
    const traffic = new Traffic();
    const reader = cachedSource(source, { persistent: false, get, put: fail }, () => "k", (bytes) => traffic.cached(bytes));
    assert.deepEqual(await reader.read(0, 10), bytes(10));
    assert.equal(traffic.cacheHits, 0);
  }
});

test("a file without a key goes past the cache", async () => {
  const cache = { persistent: true, get: () => assert.fail("asked"), put: () => assert.fail("put") };
  const source = { size: () => 100, read: async (_offset, length) => bytes(length) };
  assert.deepEqual(await cachedSource(source, cache, () => undefined).read(0, 10), bytes(10));
});

test("an entry comes back only whole and under its name", async () => {
  const name = entryName(await keyHash("url etag"), 10, 50);
  const data = Uint8Array.from({ length: 50 }, (_, i) => i);
  const entry = new Uint8Array([...(await entryHeader(name, data)), ...data]);
  assert.deepEqual(await entryBytes(name, entry), data);
  for (let length = 0; length < entry.length; length++) assert.equal(await entryBytes(name, entry.subarray(0, length)), undefined, `torn after ${length} bytes`);
  for (let i = 0; i < entry.length; i++) {
    const damaged = entry.slice();
    damaged[i] ^= 1;
    assert.equal(await entryBytes(name, damaged), undefined, `a bit of byte ${i}`);
  }
  assert.equal(await entryBytes(name, new Uint8Array([...entry, 0])), undefined, "a byte too many");
  assert.equal(await entryBytes(entryName(await keyHash("url etag"), 11, 50), entry), undefined, "another range");
  assert.equal(await entryBytes(entryName(await keyHash("url other"), 10, 50), entry), undefined, "another version");
});

/** Returns a cache backend with files in memory and a clock that counts uses. */
function shelf() {
  const files = new Map();
  let now = 0;
  const touch = (name) => (files.get(name).usedMs = now += 1);
  return {
    files,
    list: async () => [...files].map(([name, { content, usedMs }]) => ({ name, sizeBytes: content.length, usedMs })),
    read: async (name) => files.get(name).content,
    write: async (name, parts) => (files.set(name, { content: Buffer.concat(parts) }), void touch(name)),
    remove: async (name) => void files.delete(name),
    touch: async (name) => void touch(name),
  };
}

test("stored: back after a restart, by key and range alone", async () => {
  const folder = shelf();
  const first = storedCache(folder, {});
  await first.put("url 1", 5, bytes(100));
  await first.flush();
  const second = storedCache(folder, {});
  assert.deepEqual(Buffer.from(await second.get("url 1", 5, 100)), Buffer.from(bytes(100)));
  for (const [key, offset, length] of [["url 2", 5, 100], ["url 1", 6, 100], ["url 1", 5, 99]]) assert.equal(await second.get(key, offset, length), undefined);
  await second.clear();
  assert.equal(folder.files.size, 0);
  assert.equal(await second.get("url 1", 5, 100), undefined);
});

test("stored: a damaged entry is removed, and can be stored again", async () => {
  const folder = shelf();
  const cache = storedCache(folder, {});
  await cache.put("k", 0, bytes(100));
  await cache.flush();
  for (const damage of [(content) => (content[250] ^= 1), (content, file) => (file.content = content.subarray(0, 200))]) {
    const [file] = folder.files.values();
    damage(file.content, file);
    assert.equal(await cache.get("k", 0, 100), undefined);
    assert.equal(folder.files.size, 0);
    await cache.put("k", 0, bytes(100));
    await cache.flush();
    assert.ok(await cache.get("k", 0, 100));
  }
});

test("stored: the limit holds, what was used longest ago goes first, other programs' entries count once seen", async () => {
  const folder = shelf();
  const cache = storedCache(folder, { maxBytes: 10_000 });
  const other = storedCache(folder, { maxBytes: 10_000 });
  await other.put("other", 0, bytes(3000));
  await other.flush();
  for (let i = 0; i < 40; i++) {
    await cache.put("k", i, bytes(1000));
    await cache.flush();
    await cache.get("k", 0, 1000);
    const held = [...folder.files.values()].reduce((sum, { content }) => sum + content.length, 0);
    assert.ok(held <= 10_000, `${held} bytes`);
  }
  assert.ok(await cache.get("k", 0, 1000), "used all the time");
  assert.equal(await cache.get("k", 1, 1000), undefined);
  assert.ok(await cache.get("k", 39, 1000), "the newest");
  await cache.put("k", 0, bytes(9500));
  await cache.flush();
  assert.ok(await cache.get("k", 0, 1000), "too large an entry drops nothing");
});

test("stored: a shelf that fails in every way only means that nothing is cached", async () => {
  const fail = () => Promise.reject(new Error("quota"));
  const cache = storedCache({ list: fail, read: fail, write: fail, remove: fail, touch: fail }, {});
  const source = { size: () => 100, read: async (_offset, length) => bytes(length) };
  const reader = cachedSource(source, cache, () => "k");
  assert.deepEqual(await reader.read(0, 10), bytes(10));
  assert.deepEqual(await reader.read(0, 10), bytes(10));
  await cache.flush();
});

test("stored: reading waits for writing once too much is waiting", async () => {
  let write;
  const folder = { ...shelf(), write: () => new Promise((resolve) => (write = resolve)) };
  const cache = storedCache(folder, {});
  await cache.put("k", 0, bytes(40 << 20));
  let ready = false;
  const second = cache.put("k", 1, bytes(40 << 20)).then(() => (ready = true));
  while (!write) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(ready, false);
  const finish = setInterval(() => write(), 5);
  await second;
  clearInterval(finish);
});
