/** The cache in a folder: entries of an earlier run, and damaged entries. */

import assert from "node:assert/strict";
import { appendFileSync, readFileSync, readdirSync, statSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { folderCache, open, opfsCache } from "zstn";
import { startFaultServer } from "../support/fault-server.mjs";
import { readAndCheck, version } from "../support/faulty-model.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const scratch = scratchFolder();
let folders = 0;
const newFolder = () => join(scratch, `cache-${(folders += 1)}`);

async function against(file, work) {
  const server = await startFaultServer(file);
  try {
    await work(server);
  } finally {
    await server.stop();
  }
}

/** Opens a model with a new cache, as another run would, reads from it, and waits until everything is stored. */
async function run(server, file, folder, names, options) {
  const cache = folderCache(folder, options);
  const model = await open(server.url, { cache });
  for (const name of names) await readAndCheck(model, file, name);
  await cache.flush();
  return model.stats;
}

test("the next run fetches nothing twice", async () => {
  const file = version();
  const folder = newFolder();
  await against(file, async (server) => {
    const first = await run(server, file, folder, ["a", "d"]);
    assert.deepEqual([first.requests, first.cacheHits], [3, 0]);
    const second = await run(server, file, folder, ["a", "d"]);
    assert.deepEqual([second.requests, second.cacheHits, second.cacheBytes], [1, 2, 2_300_000], "only whether it is still the same file is asked");
    assert.ok(readdirSync(folder).every((name) => /^[0-9a-f]{32}-\d+-\d+$/.test(name)), "and no address is legible there");
  });
});

test("another version of the file gets nothing of the first", async () => {
  const folder = newFolder();
  await against(version(), async (server) => {
    await run(server, version(), folder, ["a"]);
    server.file = version(50);
    assert.equal((await run(server, version(50), folder, ["a"])).cacheHits, 0);
  });
});

for (const [what, etag] of [["a weak ETag", 'W/"1"'], ["no ETag", undefined]]) {
  test(`a file with ${what} is not kept`, async () => {
    const file = { ...version(), etag };
    const folder = newFolder();
    await against(file, async (server) => {
      await run(server, file, folder, ["a"]);
      assert.equal((await run(server, file, folder, ["a"])).cacheHits, 0);
    });
    assert.throws(() => readdirSync(folder), { code: "ENOENT" });
  });
}

const DAMAGE = {
  "a bit of the bytes": (path) => {
    const content = readFileSync(path);
    content[content.length - 1] ^= 1;
    writeFileSync(path, content);
  },
  "bytes missing at the end": (path) => truncateSync(path, statSync(path).size - 100),
  "bytes added": (path) => appendFileSync(path, "x"),
  "nothing left": (path) => truncateSync(path, 0),
  "zeros, as after a power failure": (path) => writeFileSync(path, new Uint8Array(statSync(path).size)),
};

for (const [what, damage] of Object.entries(DAMAGE)) {
  test(`a damaged entry (${what}) is fetched again, and replaced`, async () => {
    const file = version();
    const folder = newFolder();
    await against(file, async (server) => {
      await run(server, file, folder, ["a"]);
      for (const name of readdirSync(folder)) damage(join(folder, name));
      assert.equal((await run(server, file, folder, ["a"])).cacheHits, 0);
      assert.equal((await run(server, file, folder, ["a"])).cacheHits, 1);
    });
  });
}

test("the folder keeps its limit, what is not ours, and no leftovers", async () => {
  const file = version();
  const folder = newFolder();
  await against(file, async (server) => {
    await run(server, file, folder, ["a"], { maxBytes: 2_500_000 });
    const [first] = readdirSync(folder);
    utimesSync(join(folder, first), new Date(0), new Date(0));
    const leftover = join(folder, `${first}.0-1.part`);
    writeFileSync(leftover, "half");
    utimesSync(leftover, new Date(0), new Date(0));
    writeFileSync(join(folder, "notes.txt"), "mine");
    await run(server, file, folder, ["b", "d"], { maxBytes: 2_250_000 });
    const left = readdirSync(folder);
    assert.ok(left.includes("notes.txt"));
    assert.ok(!left.includes(first) && !left.some((name) => name.endsWith(".part")));
    const held = left.filter((name) => name !== "notes.txt").reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
    assert.ok(held <= 2_250_000 && held > 1_900_000, `${held} bytes`);
    await folderCache(folder).clear();
    assert.deepEqual(readdirSync(folder), ["notes.txt"]);
  });
});

test("a folder that cannot be made only means that nothing is cached", async () => {
  const file = version();
  const blocked = join(scratch, "a-file");
  writeFileSync(blocked, "");
  await against(file, async (server) => {
    await run(server, file, join(blocked, "cache"), ["a"]);
    assert.equal((await run(server, file, join(blocked, "cache"), ["a"])).cacheHits, 0);
  });
});

test("two programs at once get the right bytes and leave whole entries", async () => {
  const file = version();
  const folder = newFolder();
  await against(file, async (server) => {
    await Promise.all(Array.from({ length: 6 }, () => run(server, file, folder, ["a", "b", "c", "d"], { maxBytes: 2_400_000 })));
    const stats = await run(server, file, folder, ["a", "b", "c", "d"]);
    assert.ok(stats.cacheHits > 0);
  });
});

test("arguments that make no sense, and what is for browsers", () => {
  assert.throws(() => folderCache(""), { code: "invalid_input" });
  assert.throws(() => folderCache(newFolder(), { maxBytes: -1 }), { code: "invalid_input" });
  assert.throws(() => opfsCache(), { code: "unsupported", message: /private file system/ });
});
