/** Runs the command line program `zstn`: for packing, and as a server whose log counts the fetched bytes. */

import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Returns $ZSTN_BIN, or the program that `cargo build` has built. */
export function program() {
  const built = ["release", "debug"].map((profile) => fileURLToPath(new URL(`../../../target/${profile}/zstn`, import.meta.url)));
  const found = process.env.ZSTN_BIN ?? built.find((path) => existsSync(path));
  if (!found) throw new Error("No zstn program: build it with `cargo build --release -p zstn-cli`, or name it in ZSTN_BIN.");
  return found;
}

/** Packs a .safetensors file, as a delta from `base` if it is given, and with extension frames if `extended` is set. */
export async function pack(input, output, { base, extended = false, effort = "balanced" } = {}) {
  const options = [...(base === undefined ? [] : ["--base", base]), ...(extended ? ["--extended"] : []), "--effort", effort];
  await run(program(), ["pack", input, "-o", output, "--force", ...options]);
}

/** Packs files of any formats into a folder, with further `options` of `zstn pack`. The packed file of `model.gguf` is called `model.gguf.zstn`. */
export async function packAll(inputs, folder, options = []) {
  await run(program(), ["pack", ...inputs, "-o", folder, "--force", ...options]);
}

/** Unpacks a file. `base` is the base of a delta. */
export async function unpack(input, output, { base } = {}) {
  await run(program(), ["unpack", input, "-o", output, "--force", ...(base === undefined ? [] : ["--base", base])]);
}

/** Compresses a file to a frame, or to a delta from `base`. */
export async function compressFile(input, output, { base, dtype } = {}) {
  const options = { base, dtype };
  const given = Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]));
  await run(program(), ["compress", input, "-o", output, "--force", ...given]);
}

/** Decompresses a frame. `base` is the base of a delta. */
export async function decompressFile(input, output, { base } = {}) {
  await run(program(), ["decompress", input, "-o", output, "--force", ...(base === undefined ? [] : ["--base", base])]);
}

/** Converts a checkpoint to the format that the extension of `output` selects. */
export async function convert(input, output) {
  await run(program(), ["convert", input, output, "--force"]);
}

/** Serves a folder. `requests` lists all answered requests, oldest first. */
export async function serve(folder) {
  return listen(["serve", folder]);
}

/** Serves a folder of repositories as a hub, where packed files appear as their originals. */
export async function gateway(folder) {
  return listen(["gateway", "--upstream", folder]);
}

/** Shows a model with `zstn view`. `page` is the folder of the viewer. */
export async function view(path, page) {
  return listen(["view", path, "--no-open", "--page", page]);
}

async function listen(verb) {
  const server = spawn(program(), [...verb, "--port", "0", "--json"], { stdio: ["ignore", "pipe", "inherit"] });
  const requests = [];
  const lines = createInterface({ input: server.stdout });
  const listening = new Promise((resolve, reject) => {
    server.once("error", reject);
    server.once("exit", (status) => reject(new Error(`zstn ${verb[0]} ended with status ${status}`)));
    lines.on("line", (line) => {
      const entry = JSON.parse(line);
      if (entry.event === "listening") resolve(entry.url);
      if (entry.event === "request") requests.push(entry);
    });
  });
  const url = await listening;
  return {
    url,
    requests,
    /** Waits until the log has at least `count` requests, and a moment longer for late ones. */
    async settled(count) {
      for (let wait = 0; wait < 100 && requests.length < count; wait++) await pause(20);
      await pause(60);
      return requests;
    },
    async stop() {
      server.removeAllListeners("exit");
      if (server.exitCode !== null) return;
      server.kill();
      await once(server, "exit");
    },
  };
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
