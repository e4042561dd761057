/**
 * Every fault of a server, during and after opening: temporary faults only cost time, others cause their specific
 * error, and no read returns wrong bytes. The cases are in tests/faults/server.json, which the native library runs as
 * well.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { SURFACES } from "../support/fault-surfaces.mjs";
import { startFaultTable, writeReport } from "../support/fault-table.mjs";
import { chosen, isAll } from "../support/tier.mjs";
import { sha256 } from "../support/vectors.mjs";

const RETRIES = 3;
const TOKEN = "a-secret-token";
/**
 * The limits that end stalled reads. Other cases do not depend on time. On a busy machine a correct answer may take
 * longer than the first limit; a case that is wrong also fails with the second one.
 */
const STALL_LIMITS_MS = [1000, 5000];
const NO_LIMIT_MS = 15_000;
/** The number of concurrent runs. Most of them wait for a server. */
const RUNS_AT_ONCE = 48;

test("every fault of the table has its outcome", async () => {
  const table = await startFaultTable();
  const rightRequests = new Map();
  try {
    const plain = await plainFile(table);
    const all = [];
    for (const cell of table.cells) {
      for (const surface of SURFACES) {
        for (const kind of cell.kinds) {
          if (concerns(surface, cell, kind)) all.push({ cell, surface, kind });
        }
      }
    }
    const attempts = chosen(all, ({ cell, surface, kind }) => [[cell.case, cell.times], [cell.operation, cell.phase, cell.times], surface.name, kind]);
    for (const { cell, surface, kind } of attempts) {
      const key = [surface.name, kind].join();
      if (!rightRequests.has(key)) rightRequests.set(key, await requestsToARightServer(table, cell.operation, surface, kind, plain));
    }
    const runs = [];
    await Promise.all(
      Array.from({ length: RUNS_AT_ONCE }, async () => {
        for (let attempt = attempts.pop(); attempt; attempt = attempts.pop()) {
          const { cell, surface, kind } = attempt;
          const what = [cell.case, cell.operation, cell.phase, cell.times, kind, surface.name].join(", ");
          const expectation = { ...attempt, plain, rightRequests: rightRequests.get([surface.name, kind].join()) };
          const problem = await problemOf(table, expectation);
          const line = problem && `${what}: ${problem}`;
          runs.push({ case: cell.case, surface: `npm ${surface.name}`, problem: line });
        }
      }),
    );
    writeReport("npm", runs);
    const problems = runs.flatMap(({ problem }) => problem ?? []);
    assert.equal(problems.length, 0, `${problems.length} of ${runs.length}:\n${problems.join("\n")}`);
    assert.ok(runs.length > table.cells.length || !isAll);
  } finally {
    await table.stop();
  }
});

/**
 * Returns whether a cell applies to a surface with a file of this type, and whether the surface can observe the
 * expected outcome.
 */
function concerns({ operations, kinds, versions }, { operation, expected }, kind) {
  return operations.includes(operation) && (!kinds || kinds.includes(kind)) && (!versions || !expected.bytes || versions.includes(expected.bytes));
}

const rightServer = (table, operation, kind) => table.serve({ case: "all well", operation, phase: "opening", times: "always" }, kind);

/** Returns the plain file, as a correct server sends it. */
async function plainFile(table) {
  const server = await rightServer(table, "read", "safetensors");
  const bytes = new Uint8Array(await (await fetch(server.url)).arrayBuffer());
  await server.stop();
  return bytes;
}

async function requestsToARightServer(table, operation, surface, kind, plain) {
  const server = await rightServer(table, operation, kind);
  await surface.read(server.url, {}, plain);
  const log = await server.log();
  await server.stop();
  return log.length;
}

/** Runs an attempt, and repeats it with another limit if it depends on time. Returns the problem, or `null`. */
async function problemOf(table, attempt) {
  let problem = null;
  for (const limitMs of attempt.cell.stalls ? STALL_LIMITS_MS : [NO_LIMIT_MS]) {
    problem = await run(table, attempt, limitMs).then(() => null, (error) => error.message);
    if (problem === null) return null;
  }
  return problem;
}

/** Reads from a server with a fault, and checks the outcome and the requests. */
async function run(table, { cell, surface, kind, rightRequests, plain }, idleTimeoutMs) {
  const { expected } = cell;
  const server = await table.serve(cell, kind);
  const read = () => surface.read(server.url, { token: TOKEN, retries: RETRIES, idleTimeoutMs, giveUpAfterMs: 6 * idleTimeoutMs }, plain);
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
    checkRequests(log, cell, rightRequests, surface);
    if (!expected.bytes && cell.times === "once" && expected.faults === 1) {
      const again = await read(); // the fault is over and has left no trace
      checkBytes(again, "model");
    }
  } finally {
    await server.stop();
  }
}

function checkRequests(log, { phase, operation, expected, if_range: ifRange }, rightRequests, { hasToken, readsAtOnce = 1 }) {
  const before = phase === "later" ? 1 : 0;
  const requests = log.filter(({ path }) => path === "/model").length;
  const count = { one: before + 1, all: before + 1 + RETRIES, one_more: rightRequests + expected.faults }[expected.tries];
  if (count !== undefined) {
    const most = expected.tries === "one_more" ? count : before + readsAtOnce * (count - before);
    assert.ok(requests >= count && requests <= most, `requests: ${requests} for ${expected.tries}, ${count} to ${most}`);
  }
  for (const [number, { is_other_origin: isElsewhere, headers }] of log.entries()) {
    assert.equal(headers.authorization, isElsewhere || !hasToken ? undefined : `Bearer ${TOKEN}`, "the token");
    if (ifRange === null) continue;
    const condition = number === 0 || operation !== "read" || ifRange === "" ? undefined : ifRange;
    assert.equal(headers["if-range"], condition, "If-Range");
  }
}
