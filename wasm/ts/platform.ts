/** The platform: the operations that Node and browsers implement differently. */

import type { WasmFiles } from "./configure.js";
import type { Core } from "./core.js";
import type { StartWorker } from "./decode/worker-handle.js";
import type { CreateGlue } from "./glue.js";
import type { HubInput } from "./model-input.js";
import type { Source } from "./source/source.js";
import type { CoreInput } from "./wasm-input.js";

/** The operations that differ between platforms. */
export interface Platform {
  /** Fetches or reads a WebAssembly module. */
  readModule: (address: string | URL) => Promise<Response | ArrayBufferView<ArrayBuffer>>;
  /**
   * Returns a module of this package, on platforms where the script that needs it cannot derive the module's URL from
   * its own `import.meta.url`.
   */
  ownModule?: (name: keyof WasmFiles) => CoreInput | Promise<CoreInput>;
  /** Returns advice for the error message when a module of this package could not be loaded. */
  loadAdvice?: (address: string) => string;
  /** The glue of the module with all formats, on platforms that do not allow import(). */
  formatsGlue?: { create: CreateGlue<Core> };
  /** The code for files that only the module with all formats reads, on platforms that do not allow import(). */
  otherFormats?: typeof import("./other-formats.js");
  /** Starts a decoding worker. Absent on platforms without workers, where tensors are decoded on the calling thread. */
  startWorker?: StartWorker;
  /** Returns whether workers should start only if the caller requests them. */
  avoidsWorkers?: () => boolean;
  /** Returns the number of processor cores. */
  coreCount: () => number;
  /** Resolves an address to a URL that can be fetched, or to a source. */
  resolve: (address: string | URL) => URL | Source;
  /** Returns the path of the file `name` in the same folder, for addresses that are not URLs. */
  siblingPath?: (address: string | URL, name: string) => string;
  /** Loads the code that reads `hf://` addresses. */
  loadHub: () => Promise<{ hub: (address: string, options: { endpoint?: string }) => HubInput }>;
}

/** The current platform, which the entry of the package sets. */
export let platform: Platform;

/** Sets the platform. An entry of the package calls it when it is loaded. */
export function setPlatform(current: Platform): void {
  platform = current;
}
