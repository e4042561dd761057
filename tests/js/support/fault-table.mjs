/**
 * The fault table in tests/faults, and the program that serves its cases: it answers each line, a JSON command, with
 * one line.
 */

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const TARGET = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../../target", import.meta.url));

/** Returns $ZSTN_FAULT_SERVER, or the program that `cargo build -p zstn-tests` has built. */
function program() {
  const built = ["debug", "release"].map((profile) => `${TARGET}/${profile}/fault-server`);
  const found = process.env.ZSTN_FAULT_SERVER ?? built.find((path) => existsSync(path));
  if (!found) throw new Error("No server of faults: build it with `cargo build -p zstn-tests --bin fault-server`, or name it in ZSTN_FAULT_SERVER.");
  return found;
}

/**
 * Starts the program. `cells` are the cases for the npm package, and `tensors` are the SHA-256 digests of each tensor
 * in both versions of the file. `serve` starts a server for a cell and a file type, and returns the `url` of the file.
 */
export async function startFaultTable() {
  const child = spawn(program(), [], { stdio: ["pipe", "pipe", "inherit"] });
  const waiting = [];
  let ended;
  createInterface({ input: child.stdout }).on("line", (line) => waiting.shift().resolve(JSON.parse(line)));
  child.once("exit", (status) => {
    ended = new Error(`the server of faults ended with status ${status}`);
    for (const { reject } of waiting) reject(ended);
  });
  const command = (words) =>
    new Promise((resolve, reject) => {
      if (ended) return reject(ended);
      waiting.push({ resolve, reject });
      child.stdin.write(`${JSON.stringify(words)}\n`);
    });
  const { cells, tensors } = await command({ cells: "npm" });
  return {
    cells,
    tensors,
    async serve({ case: name, operation, phase, times }, kind) {
      const { id, url } = await command({ start: { case: name, operation, phase, times, kind } });
      return {
        url,
        log: async () => (await command({ log: id })).log.map((request) => ({ ...request, headers: Object.fromEntries(request.headers) })),
        stop: () => command({ stop: id }),
      };
    },
    async stop() {
      child.stdin.end();
      if (child.exitCode === null) await once(child, "exit");
    },
  };
}

/** Writes the results of a suite ({ case, surface, problem }) to `target/faults/NAME.json`. */
export function writeReport(name, runs) {
  mkdirSync(`${TARGET}/faults`, { recursive: true });
  writeFileSync(`${TARGET}/faults/${name}.json`, JSON.stringify(runs));
}
