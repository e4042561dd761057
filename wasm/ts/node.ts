/**
 * The entry for Node: inputs may also be paths and file: URLs, and the WebAssembly modules are read from disk. Its types
 * are those of all entries.
 *
 * @module zstn
 */

import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WasmFiles } from "./configure.js";
import { startWebWorker } from "./decode/web-worker-handle.js";
import { InvalidInputError } from "./errors.js";
import { FileSource } from "./node/file.js";
import { networkCause } from "./node/network-cause.js";
import { startNodeWorker } from "./node/worker-handle.js";
import { isDeno } from "./is-deno.js";
import { setPlatform } from "./platform.js";
import { setNetworkCause } from "./source/http/network-failure.js";
import type { Source } from "./source/source.js";

export * from "./exports.js";
export { folderCache } from "./node/folder-cache.js";

// In Deno, `node:worker_threads` copies the transferred buffers, which takes 4 s for 20 MB. Deno's own workers do not.
const startWorker = isDeno() ? startWebWorker : startNodeWorker;

setNetworkCause(networkCause);
setPlatform({ readModule, ownModule, loadAdvice, startWorker, coreCount: availableParallelism, resolve, siblingPath, loadHub: () => import("./hub/node.js") });

/**
 * The URL of this script, in a constant of its own: bundlers for pages replace the expression `new URL("…",
 * import.meta.url)` by URLs that cannot be read on a server.
 */
const here = import.meta.url;
const FILES: Record<keyof WasmFiles, string> = { reader: "zstn_wasm_bg.wasm", formats: "zstn_formats_bg.wasm", coder: "zstn_coder_bg.wasm", gpu: "zstn_gpu_bg.wasm" };

function ownModule(name: keyof WasmFiles): URL {
  return new URL(`./core/${FILES[name]}`, here);
}

function loadAdvice(): string {
  return (
    "If a bundler has moved the scripts away from it, leave this package out of the bundle: `serverExternalPackages: [\"zstn\"]` in Next.js, " +
    "`--external:zstn` in esbuild."
  );
}

function readModule(address: string | URL): Promise<Response | Uint8Array<ArrayBuffer>> {
  return /^https?:/i.test(String(address)) ? fetch(address) : readFile(address);
}

function resolve(address: string | URL): URL | Source {
  if (typeof address === "string" && !/^(https?|file):/i.test(address)) return new FileSource(address);
  if (!URL.canParse(address)) throw new InvalidInputError(`${String(address)} is not a valid address.`);
  const url = new URL(address);
  if (url.protocol === "file:") return new FileSource(fileURLToPath(url));
  if (/^https?:$/.test(url.protocol)) return url;
  throw new InvalidInputError(`Cannot read ${url.protocol} addresses; use http:, https: or file:, or a path.`);
}

function siblingPath(address: string | URL, name: string): string {
  const path = String(address).startsWith("file:") ? fileURLToPath(address) : String(address);
  return join(dirname(path), name);
}
