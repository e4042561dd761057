/** The platform: what Node and browsers do differently. */

import type { Core } from "./core.js";
import type { StartWorker } from "./decode/worker-handle.js";
import type { CreateGlue } from "./glue.js";
import type { Source } from "./source/source.js";

/** The differences between Node and browsers. */
export interface Platform {
  /** Reads a WebAssembly module. */
  readModule: (address: string | URL) => Promise<Response | ArrayBufferView<ArrayBuffer>>;
  /** The glue of the module with all formats, where import() is not allowed. */
  formatsGlue?: { create: CreateGlue<Core> };
  /** Starts a decoding worker. Without it, tensors are decoded on the calling thread. */
  startWorker?: StartWorker;
  /** Returns the number of cores. */
  coreCount: () => number;
  /** Resolves an address to a URL to fetch, or to a source. */
  resolve: (address: string | URL) => URL | Source;
  /** Returns the path of the file of that name in the same folder, for addresses that are not URLs. */
  siblingPath?: (address: string | URL, name: string) => string;
}

/** The platform that this runs on, as the entry has set it. */
export let platform: Platform;

/** Sets the platform. */
export function setPlatform(current: Platform): void {
  platform = current;
}
