/**
 * Every fault of a server, when opening and later: temporary ones only cost time, others have their error, and no read
 * returns wrong bytes. The cases are those of tests/faults/server.json, which the native library runs as well; below
 * them are those that are a matter of the exact order of events.
 */

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { open } from "zstn";
import { reset, resetAfter, shorter, stallAfter, startFaultServer, status } from "../support/fault-server.mjs";
import { SURFACES } from "../support/fault-surfaces.mjs";
import { startFaultTable, writeReport } from "../support/fault-table.mjs";
import { readAndCheck, version } from "../support/faulty-model.mjs";
import { sha256 } from "../support/vectors.mjs";

const RETRIES = 3;
const TOKEN = "a-secret-token";
/** Ends stalls; all other cases do not depend on time. */
const STALL_LIMIT_MS = 1000;
const NO_LIMIT_MS = 15_000;
/** Most of these wait for a server. */
const RUNS_AT_ONCE = 48;

test("every fault of the table has its outcome", async () => {
  const table = await startFaultTable();
  const rightRequests = new Map();
  try {
    const attempts = [];
    for (const cell of table.cells) {
      for (const surface of SURFACES.filter(({ operations }) => operations.includes(cell.operation))) {
        for (const kind of cell.kinds) attempts.push({ cell, surface, kind });
      }
    }
    for (const { cell, surface, kind } of attempts) {
      const key = [surface.name, kind].join();
      if (!rightRequests.has(key)) rightRequests.set(key, await requestsToARightServer(table, cell.operation, surface, kind));
    }
    const runs = [];
    await Promise.all(
      Array.from({ length: RUNS_AT_ONCE }, async () => {
        for (let attempt = attempts.pop(); attempt; attempt = attempts.pop()) {
          const { cell, surface, kind } = attempt;
          const what = [cell.case, cell.operation, cell.phase, cell.times, kind, surface.name].join(", ");
          const expectation = { ...attempt, rightRequests: rightRequests.get([surface.name, kind].join()) };
          const problem = await run(table, expectation).then(() => null, (error) => `${what}: ${error.message}`);
          runs.push({ case: cell.case, surface: `npm ${surface.name}`, problem });
        }
      }),
    );
    writeReport("npm", runs);
    const problems = runs.flatMap(({ problem }) => problem ?? []);
    assert.equal(problems.length, 0, `${problems.length} of ${runs.length}:\n${problems.join("\n")}`);
    assert.ok(runs.length > table.cells.length);
  } finally {
    await table.stop();
  }
});

async function requestsToARightServer(table, operation, surface, kind) {
  const server = await table.serve({ case: "all well", operation, phase: "opening", times: "always" }, kind);
  await surface.read(server.url, {});
  const log = await server.log();
  await server.stop();
  return log.length;
}

/** Reads from a server with a fault and judges outcome and requests. */
async function run(table, { cell, surface, kind, rightRequests }) {
  const { expected } = cell;
  const server = await table.serve(cell, kind);
  const idleTimeoutMs = cell.stalls ? STALL_LIMIT_MS : NO_LIMIT_MS;
  const read = () => surface.read(server.url, { token: TOKEN, retries: RETRIES, idleTimeoutMs, giveUpAfterMs: 6 * idleTimeoutMs });
  const checkBytes = (tensors, which) => {
    for (const [name, bytes] of Object.entries(tensors)) assert.equal(sha256(bytes), table.tensors[which][name], `the bytes of ${name}`);
  };
  try {
    const found = await read().then((tensors) => ({ tensors }), (error) => ({ error }));
    const log = await server.log();
    if (expected.bytes) {
      if (found.error) throw new Error(`${found.error.code}: ${found.error.message}`);
      checkBytes(found.tensors, expected.bytes);
    } else {
      assert.ok(found.error, `${Object.keys(found.tensors ?? {})} instead of ${expected.name}`);
      const { code, message, status: answered } = found.error;
      const fits = code === expected.failure.code && message.includes(expected.failure.says) && (answered ?? null) === expected.status && !message.includes(TOKEN);
      assert.ok(fits, `${code} ${answered}: ${message}, not ${JSON.stringify(expected)}`);
    }
    checkRequests(log, cell, rightRequests);
    if (!expected.bytes && cell.times === "once" && expected.faults === 1) {
      const again = await read(); // The fault is over, and has left nothing.
      checkBytes(again, "model");
    }
  } finally {
    await server.stop();
  }
}

function checkRequests(log, { phase, operation, expected, if_range: ifRange }, rightRequests) {
  const before = phase === "later" ? 1 : 0;
  const requests = log.filter(({ path }) => path === "/model").length;
  const count = { one: before + 1, all: before + 1 + RETRIES, one_more: rightRequests + expected.faults }[expected.tries];
  if (count !== undefined) assert.equal(requests, count, `requests: ${expected.tries}`);
  for (const [number, { is_other_origin: isElsewhere, headers }] of log.entries()) {
    assert.equal(headers.authorization, isElsewhere ? undefined : `Bearer ${TOKEN}`, "the token");
    if (ifRange === null) continue;
    const condition = number === 0 || operation !== "read" || ifRange === "" ? undefined : ifRange;
    assert.equal(headers["if-range"], condition, "If-Range");
  }
}

/** Runs `work` with a server; options as in `startFaultServer`. */
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
    await readAndCheck(model, file, "a"); // all of it of the second version
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
    await assert.rejects(open(server.url), { status: 503, retryAfterMs: 180_000, message: /asks for a wait of 180 s/ });
    assert.equal(server.log.length, 1);
  });
});

/** Runs `work` with the timers of `durationMs` written down: as functions that make them go off, which they do not by themselves. */
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
