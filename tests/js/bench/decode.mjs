/**
 * Measures the speed of decoding tensors: on the calling thread, in workers, on threads and with other builds of the
 * package, in alternating rounds, and with the native engine on one thread before and after. On virtual machines,
 * memory that one process has freed may be slow to allocate for the next.
 *
 *   node tests/js/bench/decode.mjs MODEL.safetensors [--rounds N] [--chromium | [--cpu | --busiest] [--base FILE]] [--beside FOLDER/wasm …]
 *
 * With `--base`, a plain or packed checkpoint, the model is packed as its delta from that base, with extension frames.
 * Reading the delta also reads the base, which is measured separately too.
 *
 * For busy machines, `--cpu` measures processor time instead of elapsed time and leaves workers out. `--busiest` measures
 * the processor time of the busiest thread: decoding takes at least as long if every thread has a core of its own
 * (Linux). Both leave the native engine out.
 *
 * It needs `cargo build --release -p zstn-cli` and `cargo xtask wasm`, also in the folder of each other build, such as a
 * worktree of an earlier version.
 */

import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs, promisify } from "node:util";
import { program } from "../support/cli.mjs";
import { hasThreads } from "../support/threads.mjs";
import { measured } from "./measured.mjs";
import { median, medianRatio } from "./rounds.mjs";

const run = promisify(execFile);
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: "string", default: "11" }, chromium: { type: "boolean", default: false }, cpu: { type: "boolean", default: false }, busiest: { type: "boolean", default: false }, base: { type: "string" }, beside: { type: "string", multiple: true, default: [] } },
});
const [plain] = positionals;
if (plain === undefined) throw new Error("Name a .safetensors file.");
if (values.chromium && (values.cpu || values.busiest || values.base !== undefined)) throw new Error("--cpu, --busiest and --base are for Node alone.");
const beside = Object.fromEntries(values.beside.map((folder) => [folder, resolve(folder, "dist")]));

const scratch = mkdtempSync(join(tmpdir(), "zstn-bench-"));
const packed = join(scratch, "model.zstn");
try {
  const against = values.base === undefined ? [] : ["--extended", "--base", values.base];
  await run(program(), ["pack", plain, ...against, "-o", packed, "--force"]);
  const native = async () => {
    if (values.cpu || values.busiest || values.base !== undefined) return undefined;
    const { stdout } = await run(program(), ["bench", plain, "--threads", "1", "--runs", values.rounds, "--json"]);
    const { original_bytes: bytes, unpack_seconds: seconds } = JSON.parse(stdout);
    return bytes / seconds / 1e6;
  };
  const before = await native();
  const ways = values.chromium ? await chromium() : await inNode();
  for (const way of Object.values(ways.ways)) await way(); // reclaims the memory that the native engine used
  const rounds = {};
  for (let round = 0; round < Number(values.rounds); round++) {
    const order = Object.entries(ways.ways);
    // Each method pays for the garbage of the one before it, so the order alternates.
    if (round % 2 === 1) order.reverse();
    for (const [name, way] of order) (rounds[name] ??= []).push(await way());
  }
  await ways.done();
  report(rounds, [before, await native()]);
} finally {
  rmSync(scratch, { recursive: true });
}

/** Playwright is loaded on demand, because Node transfers tensors more slowly when it is in memory. */
async function chromium() {
  const { inChromium } = await import("./chromium.mjs");
  return inChromium(packed, hasThreads, beside);
}

/** Measures reading from bytes in memory, as in a page, so that file reads do not count. */
async function inNode() {
  const zstn = await import("zstn");
  const { threadPool } = await import("zstn/threads");
  const others = {};
  for (const [name, dist] of Object.entries(beside)) others[name] = await import(pathToFileURL(join(dist, "node.js")).href);
  const bytes = (path) => new Uint8Array(readFileSync(path));
  const options = { ...(values.base !== undefined && { base: bytes(values.base) }), ...(values.cpu && { stopwatch: processorTime, inlineOnly: true }), ...(values.busiest && { stopwatch: busiestThread }) };
  return measured(zstn, hasThreads && threadPool, bytes(packed), others, options);
}

/** Measures the processor time of all threads of this process, in milliseconds. */
function processorTime() {
  const before = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  };
}

/** Measures the processor time of the thread of this process that takes most of it, in milliseconds. */
function busiestThread() {
  const times = () => readdirSync("/proc/self/task").map((id) => [id, Number(readFileSync(`/proc/self/task/${id}/schedstat`, "utf8").split(" ")[0])]);
  const before = new Map(times());
  return () => Math.max(...times().map(([id, nanoseconds]) => nanoseconds - (before.get(id) ?? 0))) / 1e6;
}

/** Prints the medians, and the medians of the ratios to the first line within each round. */
function report(rounds, native) {
  const [first] = Object.values(rounds);
  console.log(`| ${values.chromium ? "Chromium" : `Node ${process.versions.node}`} | MB/s | ratio |\n|---|--:|--:|`);
  for (const [name, speeds] of Object.entries(rounds)) {
    console.log(`| ${name} | ${median(speeds).toFixed(0)} | ${medianRatio(speeds, first).toFixed(2)} |`);
  }
  if (native.includes(undefined)) return;
  console.log(`| native, one thread | ${median(native).toFixed(0)} | ${(median(native) / median(first)).toFixed(2)} |`);
}
