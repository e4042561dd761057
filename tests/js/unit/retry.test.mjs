import assert from "node:assert/strict";
import { test } from "node:test";
import { FormatError, HttpError, NetworkError, SourceChangedError, TruncatedError } from "../../../wasm/dist/errors.js";
import { networkCause } from "../../../wasm/dist/node/network-cause.js";
import { setNetworkCause } from "../../../wasm/dist/source/http/network-failure.js";
import { parseRetryAfter } from "../../../wasm/dist/source/http/retry-after.js";
import { mayPass, retrying } from "../../../wasm/dist/source/retry.js";
import { fakeClock } from "../support/clock.mjs";

setNetworkCause(networkCause);

/** Returns a policy whose clock advances only by its waits, and the list of these waits. */
function policy(over = {}) {
  const waits = [];
  const clock = fakeClock();
  const { sleep } = clock;
  clock.sleep = (durationMs, signal) => (signal?.throwIfAborted(), waits.push(durationMs), sleep(durationMs));
  const limits = { retries: 3, idleTimeoutMs: 30_000, giveUpAfterMs: 55_000 };
  const stalled = () => new NetworkError("u", "silent");
  return { waits, ...limits, clock, signal: undefined, receivedBytes: () => 0, shouldRetry: (error) => mayPass(error, false), stalled, onRetry: () => {}, ...over };
}

/** Returns an attempt that lasts until its time limit. */
const silent = (clock) => async (idle) => {
  clock.pass(60_000, idle.signal);
  throw idle.signal.reason;
};

const failing = (...errors) => async () => {
  const error = errors.shift();
  if (error) throw error;
  return "done";
};
const network = () => new NetworkError("u", "gone");
const status = (code, retryAfterMs) => new HttpError("u", code, "no", retryAfterMs);

test("waits double, up to a limit", async () => {
  const plan = policy({ retries: 7 });
  await assert.rejects(retrying(async () => { throw network(); }, plan), { code: "network" });
  assert.deepEqual(plan.waits, [300, 600, 1200, 2400, 4800, 9600, 10_000]);
});

test("the jitter is full: from nothing to the limit", async () => {
  for (const random of [0, 0.25, 0.5]) {
    const plan = policy();
    plan.clock.random = () => random;
    assert.equal(await retrying(failing(network(), network()), plan), "done");
    assert.deepEqual(plan.waits, [300 * random, 600 * random]);
  }
});

test("Retry-After is a lower limit, and is reported where it takes too long", async () => {
  const plan = policy();
  await retrying(failing(status(429, 5000), status(503, 100), status(503, 40_000)), plan);
  assert.deepEqual(plan.waits, [5000, 600, 40_000]);
  for (const [givenMs, told] of [[55_000, "55"], [3_600_000, "3600"]]) {
    const plan = policy();
    await assert.rejects(retrying(failing(status(429, givenMs)), plan), { message: `no The server requests a wait of ${told} s.`, retryAfterMs: givenMs });
    assert.deepEqual(plan.waits, []);
  }
  await retrying(failing(status(429, 180_000)), policy({ giveUpAfterMs: 200_000 }));
});

test("attempts and the waits between them have one limit", async () => {
  const plan = policy();
  await assert.rejects(retrying(silent(plan.clock), plan), { message: "silent (Tried 2 times.)" });
  assert.deepEqual([plan.waits, plan.clock.elapsedMs()], [[300], 55_000]);
  const patient = policy({ giveUpAfterMs: 1_000_000 });
  await assert.rejects(retrying(silent(patient.clock), patient), { message: "silent (Tried 4 times.)" });
  assert.equal(patient.clock.elapsedMs(), 4 * 30_000 + 300 + 600 + 1200);
});

test("after much has arrived the limit begins anew", async () => {
  let received = 0;
  const plan = policy({ receivedBytes: () => received });
  let attempts = 0;
  const attempt = async (idle) => {
    if ((attempts += 1) > 6) return "done";
    received += 1 << 20;
    return silent(plan.clock)(idle);
  };
  assert.equal(await retrying(attempt, plan), "done");
  assert.ok(plan.clock.elapsedMs() > 3 * 55_000);
});

test("attempts are counted, and none is made without leave", async () => {
  let retries = 0;
  await retrying(failing(network(), network()), policy({ onRetry: () => (retries += 1) }));
  assert.equal(retries, 2);
  const plan = policy({ retries: 0 });
  await assert.rejects(retrying(failing(network()), plan), { code: "network" });
  assert.deepEqual(plan.waits, []);
});

test("an attempt that brought much does not count as a failure", async () => {
  let received = 0;
  const plan = policy({ retries: 1, receivedBytes: () => received });
  let attempts = 0;
  const attempt = async () => {
    if ((attempts += 1) === 10) return "done";
    received += 1 << 20;
    throw network();
  };
  assert.equal(await retrying(attempt, plan), "done");
  assert.deepEqual(plan.waits, Array(9).fill(300));
});

for (const error of [status(404), status(403), status(416), status(501), new SourceChangedError("x"), new FormatError("x"), new TruncatedError(10, 11, "more"), new TypeError("mine")]) {
  test(`${error.name} ${error.status ?? ""} is not tried again`, async () => {
    const plan = policy();
    await assert.rejects(retrying(failing(error), plan), (thrown) => thrown === error);
    assert.deepEqual(plan.waits, []);
  });
}

for (const error of [network(), status(408), status(429), status(500), status(503), new TruncatedError(10, 9, "less")]) {
  test(`${error.name} ${error.status ?? ""} is tried again`, async () => assert.equal(await retrying(failing(error), policy()), "done"));
}

const failed = (code, message) => new NetworkError("u", "gone", { cause: new TypeError("fetch failed", { cause: Object.assign(new Error(message), { code }) }) });

for (const [code, message, answered, expected] of [
  ["ECONNREFUSED", "", false, 1],
  ["ECONNREFUSED", "", true, 4],
  ["ENOTFOUND", "", false, 1],
  ["EAI_AGAIN", "", false, 4],
  ["ECONNRESET", "", false, 4],
  ["UND_ERR_SOCKET", "", false, 4],
  ["HPE_INVALID_CONSTANT", "", true, 1],
  ["HPE_INVALID_EOF_STATE", "", true, 4],
  ["UND_ERR_HEADERS_OVERFLOW", "", true, 1],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", "", true, 1],
  ["ERR_TLS_CERT_ALTNAME_INVALID", "", true, 1],
  [undefined, "redirect count exceeded", true, 1],
  [undefined, "something else", false, 4],
]) {
  test(`${code ?? message}, from a server that ${answered ? "answered" : "never answered"} before: ${expected} attempts`, async () => {
    let attempts = 0;
    const attempt = async () => ((attempts += 1), Promise.reject(failed(code, message)));
    await assert.rejects(retrying(attempt, policy({ shouldRetry: (error) => mayPass(error, answered) })), { code: "network" });
    assert.equal(attempts, expected);
  });
}

test("an abort while waiting is the end, with its reason", async () => {
  const stop = new AbortController();
  const reason = new Error("enough");
  const plan = policy({ signal: stop.signal });
  plan.clock.sleep = (_ms, signal) => (stop.abort(reason), Promise.reject(signal.reason));
  await assert.rejects(retrying(failing(network()), plan), (error) => error === reason);
});

for (const [header, expected] of [
  ["0", 0],
  ["120", 120_000],
  [" 3 ", 3000],
  ["Sun, 06 Nov 1994 08:49:37 GMT", 37_000],
  ["Sunday, 06-Nov-94 08:49:37 GMT", 37_000],
  ["Sun Nov  6 08:49:37 1994", 37_000],
  ["Sun, 06 Nov 1994 08:40:00 GMT", 0],
  ["-5", undefined],
  ["1.5", undefined],
  ["soon", undefined],
  ["", undefined],
  [null, undefined],
]) {
  test(`Retry-After: ${header}`, () => assert.equal(parseRetryAfter(header, Date.UTC(1994, 10, 6, 8, 49, 0)), expected));
}
