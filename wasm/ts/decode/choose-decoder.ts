/** Creates pools of workers, and chooses the decoder of a model. */

import { checkOptions } from "../known-options.js";
import type { OptionNames } from "../known-options.js";
import { FormatError, UnsupportedError } from "../errors.js";
import { platform } from "../platform.js";
import { undecodable } from "../mixed-versions.js";
import { inline } from "./decoder.js";
import type { Decoder } from "./decoder.js";
import { WorkerPool } from "./worker-pool.js";
import type { Decoding, WorkerPoolOptions } from "./worker-pool.js";

let sharedPool: WorkerPool | undefined;

/**
 * Creates a pool of decoding workers, for the option `workers` of one or more models. Workers start on demand. Throws
 * an `UnsupportedError` in a runtime without workers, and an `InvalidInputError` for an invalid option.
 */
export function workerPool(options: WorkerPoolOptions = {}): WorkerPool {
  checkOptions("workerPool()", options, { size: 1, minBytes: 1 } satisfies OptionNames<WorkerPoolOptions>);
  const { startWorker } = platform;
  if (!startWorker) throw new UnsupportedError("This runtime has no workers: leave out the option `workers`, or pass 0.");
  return new WorkerPool(options, platform.coreCount(), startWorker);
}

/** Returns the decoder for the option `workers` of `open`. */
export function decodingOf(workers: number | WorkerPool | undefined): Decoding {
  const { decoder, ownPool } = poolOf(workers);
  const explained: Decoder = {
    decode: async (request) => {
      const { info, sources } = request;
      const raw = await decoder.decode(request).catch((error: unknown) => undecodable(error, sources));
      if (raw.byteLength === info.byteLength) return raw;
      throw new FormatError(`The tensor ${info.name} has ${info.byteLength} bytes, but ${raw.byteLength} were decoded.`, { tensor: info.name });
    },
    warmUp: (target) => decoder.warmUp(target),
    divides: decoder.divides?.bind(decoder),
  };
  return { decoder: explained, ...(ownPool && { ownPool }) };
}

function poolOf(workers: number | WorkerPool | undefined): Decoding {
  if (workers instanceof WorkerPool) return { decoder: workers };
  if (workers === 0 || (workers === undefined && (!platform.startWorker || platform.avoidsWorkers?.()))) return { decoder: inline };
  if (workers === undefined) return { decoder: (sharedPool ??= workerPool()) };
  const ownPool = workerPool({ size: workers });
  return { decoder: ownPool, ownPool };
}
