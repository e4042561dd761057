/** The responses of a service worker, tested without one, through the file server that produces them. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { open } from "zstn";
import { serveSafetensors } from "../../../wasm/dist/service-worker.js";
import { FileServer } from "../../../wasm/dist/safetensors-view/file-server.js";
import { reset, startFaultServer, status } from "../support/fault-server.mjs";
import { version } from "../support/faulty-model.mjs";
import { vectorPath } from "../support/vectors.mjs";

const original = readFileSync(vectorPath("zstn", "all_dtypes.safetensors"));
const packed = { bytes: readFileSync(vectorPath("zstn", "all_dtypes.zstn")), etag: '"v1"', lastModified: new Date(1.6e12).toUTCString() };

/** Runs `work` with a function that requests the virtual file of a server that serves `file`. */
async function served(work, { file = packed, options = { retries: 0 } } = {}) {
  const server = await startFaultServer(file);
  try {
    const address = new FileServer(server.url, () => open(server.url, options), {});
    await work((headers = {}, method = "GET") => address.answer(new Request("https://host.test/x.safetensors", { method, headers })), server);
  } finally {
    await server.stop();
  }
}

const fields = ({ headers }, ...names) => names.map((name) => headers.get(name));
const body = async (response) => Buffer.from(await response.arrayBuffer());

test("the whole file, its head, ranges of it, and none", async () => {
  await served(async (ask) => {
    const whole = await ask();
    const file = await body(whole);
    const size = file.length;
    assert.equal(whole.status, 200);
    assert.deepEqual(fields(whole, "content-length", "accept-ranges", "content-type"), [String(size), "bytes", "application/octet-stream"]);
    assert.ok(file.subarray(-1000).equals(original.subarray(-1000)));
    const head = await ask({ range: "bytes=0-7" }, "HEAD");
    assert.deepEqual([head.status, ...fields(head, "content-length", "etag"), (await body(head)).length], [200, String(size), whole.headers.get("etag"), 0]);
    for (const [range, begin, end] of [["bytes=0-7", 0, 8], ["bytes=300-", 300, size], ["bytes=-9", size - 9, size], [`bytes=${size - 3}-${size + 100}`, size - 3, size]]) {
      const part = await ask({ range });
      assert.deepEqual([part.status, ...fields(part, "content-range", "content-length")], [206, `bytes ${begin}-${end - 1}/${size}`, String(end - begin)]);
      assert.ok((await body(part)).equals(file.subarray(begin, end)), range);
    }
    const none = await ask({ range: `bytes=${size}-` });
    assert.deepEqual([none.status, ...fields(none, "content-range")], [416, `bytes */${size}`]);
    const post = await ask({}, "POST");
    assert.deepEqual([post.status, ...fields(post, "allow")], [405, "GET, HEAD"]);
  });
});

test("conditions: If-None-Match and If-Range", async () => {
  await served(async (ask) => {
    const etag = (await ask({}, "HEAD")).headers.get("etag");
    assert.match(etag, /^"[0-9a-f]{32}"$/);
    for (const [list, expected] of [[etag, 304], [`"x", W/${etag}`, 304], ["*", 304], ['"x"', 200]]) {
      assert.equal((await ask({ "if-none-match": list })).status, expected, list);
    }
    assert.equal((await ask({ range: "bytes=0-7", "if-range": etag })).status, 206);
    assert.equal((await ask({ range: "bytes=0-7", "if-range": '"x"' })).status, 200);
  });
});

test("the ETag is that of a version; without a strong one there is none", async () => {
  const etags = [];
  for (const file of [packed, packed, { ...packed, etag: '"v3"' }]) {
    await served(async (ask) => etags.push((await ask({}, "HEAD")).headers.get("etag")), { file });
  }
  assert.notEqual(etags[0], etags[2]);
  for (const etag of [undefined, 'W/"v1"']) {
    await served(async (ask) => assert.equal((await ask()).headers.get("etag"), null), { file: { ...packed, etag } });
  }
});

test("a packed file that was exchanged is another file from the next answer on, and never a mix", async () => {
  const [before, after] = [version(1), version(2)];
  await served(async (ask, server) => {
    const far = { range: "bytes=1000000-1000999" };
    const first = await ask(far);
    assert.ok((await body(first)).equals(before.bytes.subarray(1_000_000, 1_001_000)));
    server.file = after;
    const answers = await Promise.all([ask(far), ask(far)]);
    for (const answer of answers) {
      assert.equal(answer.status, 206);
      assert.notEqual(answer.headers.get("etag"), first.headers.get("etag"));
      assert.ok((await body(answer)).equals(after.bytes.subarray(1_000_000, 1_001_000)));
    }
    const resumed = await ask({ ...far, "if-range": first.headers.get("etag") });
    assert.equal(resumed.status, 200, "who has a part of the old file is given all of the new one");
    assert.ok((await body(resumed)).equals(after.bytes));
  }, { file: before });
});

test("trouble has a status and a sentence, and the next request tries again", async () => {
  await served(async (ask, server) => {
    server.faults.push(status(404), status(500), reset);
    for (const expected of [404, 502, 502]) {
      const response = await ask();
      assert.equal(response.status, expected);
      assert.match(await response.text(), /\w+ .*\./);
    }
    assert.equal((await ask()).status, 200);
  });
});

test("outside of a service worker there is nothing to serve", () => {
  assert.throws(() => serveSafetensors({ "/a": "/b" }), { name: "InvalidInputError", message: /service worker/ });
});
