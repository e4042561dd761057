/** The entry for Node: paths and file: addresses besides http(s), and the WebAssembly module read from disk. */

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { lazyCore } from "./core.js";
import type { CoreInput } from "./core.js";
import { InvalidInputError } from "./errors.js";
import { FileSource } from "./node/file.js";
import { opener } from "./open.js";
import type { Open } from "./open.js";
import type { Source } from "./source/source.js";

export * from "./exports.js";

const loadCore = lazyCore(async (glue, input) => {
  if (input instanceof Response || isHttp(input)) return glue.default({ module_or_path: input });
  if (input === undefined || typeof input === "string" || input instanceof URL) {
    const bytes = await readFile(input ?? new URL("./core/zstn_wasm_bg.wasm", import.meta.url));
    return glue.initSync({ module: bytes });
  }
  return glue.initSync({ module: input });
});

/** Opens a model for reading tensors; see `Openable` for what can be opened. */
export const open: Open = opener({ loadCore, resolve });

/**
 * Loads the WebAssembly module now, and from where you say. Optional: `open` does it by itself with the
 * file that comes with this package. Only the first call, or the first `open`, decides.
 */
export async function init(input?: CoreInput): Promise<void> {
  await loadCore(input);
}

function resolve(address: string | URL): URL | Source {
  if (typeof address === "string" && !/^(https?|file):/i.test(address)) return new FileSource(address);
  if (!URL.canParse(address)) throw new InvalidInputError(`${String(address)} is not a valid address.`);
  const url = new URL(address);
  if (url.protocol === "file:") return new FileSource(fileURLToPath(url));
  if (/^https?:$/.test(url.protocol)) return url;
  throw new InvalidInputError(`Cannot read ${url.protocol} addresses; use http:, https: or file:, or a path.`);
}

function isHttp(address: CoreInput | undefined): address is string | URL {
  return (typeof address === "string" || address instanceof URL) && /^https?:/i.test(String(address));
}
