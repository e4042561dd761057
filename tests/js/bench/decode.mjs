/**
 * How fast tensors are decoded: on the thread that asks, in workers, on threads, and by the native engine on one thread,
 * by turns in one run. `node tests/js/bench/decode.mjs MODEL.safetensors [--rounds N] [--chromium]`; it needs `cargo build
 * --release -p zstn` and `cargo xtask wasm`.
 */

import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { program } from "../support/cli.mjs";
import { inChromium } from "./chromium.mjs";
import { measured } from "./measured.mjs";

const run = promisify(execFile);
const { values, positionals } = parseArgs({ allowPositionals: true, options: { rounds: { type: "string", default: "11" }, chromium: { type: "boolean", default: false } } });
const [plain] = positionals;
if (plain === undefined) throw new Error("Name a .safetensors file.");
const withThreads = existsSync(fileURLToPath(new URL("../../../wasm/dist/core/zstn_threads_bg.wasm", import.meta.url)));

const scratch = mkdtempSync(join(tmpdir(), "zstn-bench-"));
const packed = join(scratch, "model.zstn");
try {
  await run(program(), ["pack", plain, "-o", packed]);
  const native = async () => {
    const { stdout } = await run(program(), ["bench", plain, "--threads", "1", "--runs", "1", "--json"]);
    const { original_bytes: bytes, unpack_seconds: seconds } = JSON.parse(stdout);
    return bytes / seconds / 1e6;
  };
  const ways = values.chromium ? await inChromium(packed, withThreads) : await inNode();
  const rounds = {};
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [name, way] of Object.entries({ ...ways.ways, "native, one thread": native })) (rounds[name] ??= []).push(await way());
  }
  await ways.done();
  report(rounds);
} finally {
  rmSync(scratch, { recursive: true });
}

async function inNode() {
  const zstn = await import("zstn");
  const { threadPool } = await import("zstn/threads");
  return measured(zstn, threadPool, packed, withThreads);
}

/** Medians, and of the ratios to the first line within each round. */
function report(rounds) {
  const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
  const [first] = Object.values(rounds);
  for (const [name, speeds] of Object.entries(rounds)) {
    const ratio = median(speeds.map((speed, round) => speed / first[round]));
    console.log(`${name.padEnd(28)} ${median(speeds).toFixed(0).padStart(6)} MB/s  ${ratio.toFixed(2)}`);
  }
}
