/** Tests of HTTP reads that depend on the exact order of events: repeated requests, waits, aborts, merged and cached reads. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { open } from "zstn";
import { reset, resetAfter, shorter, stallAfter, startFaultServer, status } from "../support/fault-server.mjs";
import { readAndCheck, version } from "../support/faulty-model.mjs";

/** Runs `work` with a server that `startFaultServer` starts with these options. */
async function against(options, work, file = version()) {
  const server = await startFaultServer(file, options);
  try {
    await work(server, file);
  } finally {
    await server.stop();
  }
}

test("what has arrived is kept: only the rest is asked for again, and only if it is still the same file", async () => {
  await against({}, async (server, file) => {
    const model = await open(server.url);
    server.faults.push(resetAfter(100_000, model), resetAfter(50_000, model));
    const before = model.stats.bytesFetched;
    await readAndCheck(model, file, "a");
    const [{ offset, length: storedLength }] = model.tensors.get("a").parts;
    const last = offset + storedLength - 1;
    const ranges = server.log.slice(1).map(({ headers }) => headers.range);
    assert.deepEqual(ranges, [0, 100_000, 150_000].map((done) => `bytes=${offset + done}-${last}`));
    assert.ok(server.log.slice(1).every(({ headers }) => headers["if-range"] === file.etag));
    assert.equal(model.stats.bytesFetched - before, storedLength);

    server.faults.push((...call) => {
      resetAfter(100_000)(...call);
      server.file = version(50);
    });
    await assert.rejects(model.tensor("a"), { code: "changed" });
  });
});

test("without anything that tells versions apart, a read starts again from its beginning", async () => {
  const file = { ...version(), etag: undefined, lastModified: undefined };
  await against({}, async (server) => {
    const model = await open(server.url);
    server.faults.push((...call) => {
      resetAfter(100_000)(...call);
      Object.assign(file, { ...version(50), etag: undefined, lastModified: undefined });
    });
    await readAndCheck(model, file, "a"); // all bytes are of the second version
  }, file);
});

test("a line that breaks again and again still brings a large tensor, as long as every piece brings something", async () => {
  await against({}, async (server, file) => {
    const model = await open(server.url, { retries: 1 });
    server.faults.push(resetAfter(1_100_000, model), reset, reset);
    await assert.rejects(model.tensor("d"), { code: "network" }, "a break after much, then one more than allowed");
    server.faults.length = 0;
    server.faults.push(reset, resetAfter(1_100_000, model), reset);
    await readAndCheck(model, file, "d");
  });
});

test("less than was asked for, and saying so, is a right answer: the rest is asked for", async () => {
  await against({ always: shorter(100_000), faults: [shorter(1000)] }, async (server, file) => {
    const heard = [];
    const model = await open(server.url, { retries: 0, onProgress: (progress) => heard.push(progress) });
    assert.equal(heard.at(-1).loadedBytes, 32768);
    assert.deepEqual(server.log.map(({ headers }) => headers.range), ["bytes=0-32767", "bytes=1000-32767"]);
    const { bytesFetched } = model.stats;
    await readAndCheck(model, file, "a");
    const [{ offset, length }] = model.tensors.get("a").parts;
    const ranges = [0, 100_000, 200_000].map((done) => `bytes=${offset + done}-${offset + length - 1}`);
    assert.deepEqual(server.log.slice(2).map(({ headers }) => headers.range), ranges);
    assert.deepEqual([model.stats.bytesFetched - bytesFetched, model.stats.retries], [length, 0]);
  });
});

test("parts of two versions are not put together, and none are that could be of two", async () => {
  for (const honest of [true, false]) {
    await against({}, async (server) => {
      const model = await open(server.url);
      server.always = (request, response) => {
        if (!honest) delete request.headers["if-range"];
        shorter(100_000)(request, response, server);
        server.file = version(50);
        server.always = honest ? undefined : server.always;
      };
      await assert.rejects(model.tensor("a"), { code: "changed" });
    });
  }
  const bare = { ...version(), etag: undefined, lastModified: undefined };
  await against({ faults: [shorter(1000)] }, async (server) => {
    await assert.rejects(open(server.url), { code: "range_not_supported", message: /without ETag or Last-Modified/ });
    assert.equal(server.log.length, 1);
    const model = await open(server.url);
    server.faults.push(shorter(1000));
    await assert.rejects(model.tensor("a"), { code: "range_not_supported", message: /without ETag or Last-Modified/ });
    assert.equal(server.log.length, 3);
  }, bare);
});

test("single bytes are not asked for one after the other", async () => {
  await against({ always: shorter(1) }, async (server) => {
    await assert.rejects(open(server.url), { code: "range_not_supported", message: /64 times in a row/ });
    assert.equal(server.log.length, 66);
  });
});

test("waiting in vain has an end, even if every attempt brings something", async () => {
  await against({}, async (server) => {
    const model = await open(server.url, { idleTimeoutMs: 200, giveUpAfterMs: 300, retries: 100 });
    server.always = stallAfter(40_000);
    await assert.rejects(model.tensor("a"), { code: "network", message: /Next to nothing/ });
    assert.ok(server.log.length <= 4, `${server.log.length} requests`);
  });
});

test("a wait that is too long is reported instead, at once", async () => {
  await against({ always: status(503, { "retry-after": "180" }) }, async (server) => {
    await assert.rejects(open(server.url), { status: 503, retryAfterMs: 180_000, message: /requests a wait of 180 s/ });
    assert.equal(server.log.length, 1);
  });
});

/**
 * Runs `work` with all timers of `durationMs` held back: they are collected as functions that fire them, and do not
 * fire by themselves.
 */
async function heldTimers(durationMs, work) {
  const held = [];
  let onTimer = () => {};
  const { setTimeout: real } = globalThis;
  mock.method(globalThis, "setTimeout", (run, timerMs, ...rest) => {
    if (timerMs !== durationMs) return real(run, timerMs, ...rest);
    held.push(run);
    onTimer();
    return real(() => {}, 0);
  });
  const next = () => (held.length > 0 ? held.shift() : new Promise((resolve) => (onTimer = () => resolve(held.shift()))));
  try {
    await work(next, held);
  } finally {
    mock.restoreAll();
  }
}

test("Retry-After is waited for", async () => {
  await against({ faults: [status(503, { "retry-after": "17" })] }, async (server) => {
    await heldTimers(17_000, async (next) => {
      const opening = open(server.url);
      const goOff = await next();
      assert.equal(server.log.length, 1);
      goOff();
      await opening;
      assert.equal(server.log.length, 2);
    });
    server.faults.push(status(429, { "retry-after": "7" }));
    await assert.rejects(open(server.url, { retries: 0 }), { status: 429, retryAfterMs: 7000 });
  });
});

test("an abort ends the wait for Retry-After", async () => {
  await against({ always: status(429, { "retry-after": "17" }) }, async (server) => {
    await heldTimers(17_000, async (next, held) => {
      const stop = new AbortController();
      const reason = new Error("no patience");
      const opening = open(server.url, { signal: stop.signal });
      await next();
      stop.abort(reason);
      await assert.rejects(opening, (error) => error === reason);
      assert.deepEqual([server.log.length, held.length], [1, 0]);
    });
  });
});

test("a fetch that ignores its signal still stalls and aborts", async () => {
  const deaf = () => new Promise(() => {});
  await assert.rejects(open("http://127.0.0.1:1/x", { fetch: deaf, retries: 0, idleTimeoutMs: 50 }), { code: "network", message: /Next to nothing came .* for 0\.05 seconds/ });
  const stop = new AbortController();
  const opening = open("http://127.0.0.1:1/x", { fetch: deaf, signal: stop.signal });
  setTimeout(() => stop.abort(), 20);
  await assert.rejects(opening, { name: "AbortError" });
});

test("reads asked for together are one request, each caller on their own", async () => {
  await against({}, async (server, file) => {
    const model = await open(server.url);
    const opened = model.stats.requests;
    await Promise.all(["b", "c"].map((name) => readAndCheck(model, file, name)));
    assert.equal(model.stats.requests, opened + 1);

    const stop = new AbortController();
    const reason = new Error("not this one");
    const first = model.tensor("b", { signal: stop.signal, onProgress: () => stop.abort(reason) });
    const second = readAndCheck(model, file, "c");
    await assert.rejects(first, (error) => error === reason);
    await second;
    assert.equal(model.stats.requests, opened + 2);

    const alone = await open(server.url, { coalesce: false });
    await Promise.all([alone.tensor("b"), alone.tensor("c")]);
    assert.equal(alone.stats.requests, 3);
  });
});

test("a memory cache answers what was read before, whatever the server says about versions", async () => {
  for (const file of [version(), { ...version(), etag: undefined, lastModified: undefined }]) {
    await against({}, async (server) => {
      const model = await open(server.url, { cache: 1 << 20 });
      await readAndCheck(model, file, "a");
      const { requests, bytesFetched } = model.stats;
      await readAndCheck(model, file, "a");
      const { storedLength } = model.tensors.get("a");
      assert.deepEqual({ ...model.stats, roundTrips: undefined }, { requests, roundTrips: undefined, bytesFetched, cacheHits: 1, cacheBytes: storedLength, retries: 0 });
      await readAndCheck(model, file, "d");
      await readAndCheck(model, file, "d");
      assert.equal(model.stats.cacheHits, 1, "larger than the cache");
    }, file);
  }
});

for (const [what, options] of Object.entries({
  "retries that are no number": { retries: "3" },
  "a negative number of retries": { retries: -1 },
  "a time limit of nothing": { idleTimeoutMs: 0 },
  "a time to give up after of nothing": { giveUpAfterMs: 0 },
  "a token with a line break": { token: "a\nb" },
  "a token and an Authorization header": { token: "a", headers: { authorization: "Basic b" } },
  "a negative cache": { cache: -1 },
  "a gap that is no number": { coalesce: { maxGapBytes: Number.NaN } },
})) {
  test(`${what} is refused before anything is asked`, async () => {
    await assert.rejects(open("http://127.0.0.1:1/x", options), { code: "invalid_input" });
  });
}
