/** The platform: what Node and browsers do differently. */

import type { Core } from "./core.js";
import type { WorkerPool, WorkerPoolOptions } from "./decode/pool.js";
import type { Source } from "./source/source.js";

/** The differences between Node and browsers. */
export interface Platform {
  loadCore: () => Promise<Core>;
  /** Loads the core that reads all formats. */
  loadFormats: () => Promise<Core>;
  /** Creates a pool of workers. Without it, tensors are decoded on the calling thread. */
  pool?: (options: WorkerPoolOptions) => WorkerPool;
  /** Resolves an address to a URL to fetch, or to a source. */
  resolve: (address: string | URL) => URL | Source;
  /** Returns the path of the file of that name in the same folder, for addresses that are not URLs. */
  siblingPath?: (address: string | URL, name: string) => string;
}
