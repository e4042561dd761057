/** The platform: what Node and browsers do differently. */

import type { WasmFiles } from "./configure.js";
import type { Core } from "./core.js";
import type { StartWorker } from "./decode/worker-handle.js";
import type { CreateGlue } from "./glue.js";
import type { HubInput } from "./model-input.js";
import type { Source } from "./source/source.js";
import type { CoreInput } from "./wasm-input.js";

/** The differences between Node and browsers. */
export interface Platform {
  /** Reads a WebAssembly module. */
  readModule: (address: string | URL) => Promise<Response | ArrayBufferView<ArrayBuffer>>;
  /** Returns a module of this package where its address is not known from `import.meta.url` of the script that asks. */
  ownModule?: (name: keyof WasmFiles) => CoreInput | Promise<CoreInput>;
  /** Says what to do where a module of this package could not be loaded. */
  loadAdvice?: (address: string) => string;
  /** The glue of the module with all formats, where import() is not allowed. */
  formatsGlue?: { create: CreateGlue<Core> };
  /** Starts a decoding worker. Without it there are none, and tensors are decoded on the calling thread. */
  startWorker?: StartWorker;
  /** Returns whether workers are started only where the caller asks for them. */
  avoidsWorkers?: () => boolean;
  /** Returns the number of cores. */
  coreCount: () => number;
  /** Resolves an address to a URL to fetch, or to a source. */
  resolve: (address: string | URL) => URL | Source;
  /** Returns the path of the file of that name in the same folder, for addresses that are not URLs. */
  siblingPath?: (address: string | URL, name: string) => string;
  /** Loads what reads `hf://` addresses. */
  loadHub: () => Promise<{ hub: (address: string, options: { endpoint?: string }) => HubInput }>;
}

/** The platform that this runs on, as the entry has set it. */
export let platform: Platform;

/** Sets the platform. */
export function setPlatform(current: Platform): void {
  platform = current;
}
