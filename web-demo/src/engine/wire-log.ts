/** What goes over the wire: the counters of the models, and which parts of the first one's file have arrived. */

import type { Model, Source } from "zstn";
import type { ByteRange, Wire } from "./protocol.js";

/** Not more often than this, in milliseconds. */
const LEAST_PAUSE_MS = 80;

/** Notes ranges and times of one model's requests. */
export interface Recorder {
  readonly fetch: typeof fetch;
  readonly file: (file: File) => Source;
  arrived: ByteRange[];
  busyMs: number;
}

export class WireLog {
  readonly #models: () => Iterable<Model>;
  readonly #tell: (wire: Wire) => void;
  #recorder: Recorder | undefined;
  #told = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(models: () => Iterable<Model>, tell: (wire: Wire) => void) {
    this.#models = models;
    this.#tell = tell;
  }

  /** For a model that is about to be opened. */
  recorder(): Recorder {
    let underWay = 0;
    let since = 0;
    const timed = async <T>(work: () => Promise<T>): Promise<T> => {
      if (underWay++ === 0) since = performance.now();
      try {
        return await work();
      } finally {
        if (--underWay === 0) recorder.busyMs += performance.now() - since;
      }
    };
    const recorder: Recorder = {
      arrived: [],
      busyMs: 0,
      fetch: (input, init) =>
        timed(async () => {
          const response = await fetch(input, init);
          const range = /^bytes=(\d+)-(\d+)$/.exec(new Headers(init?.headers).get("range") ?? "");
          if (response.status === 206 && range) recorder.arrived.push({ begin: Number(range[1]), end: Number(range[2]) + 1 });
          return response;
        }),
      file: (file) => ({
        size: () => file.size,
        read: (offset, length) =>
          timed(async () => {
            const bytes = await file.slice(offset, offset + length).arrayBuffer().catch((cause: unknown) => {
              throw new Error(`${file.name} could not be read. If it was changed or moved, choose it again.`, { cause });
            });
            recorder.arrived.push({ begin: offset, end: offset + length });
            return new Uint8Array(bytes);
          }),
      }),
    };
    return recorder;
  }

  /** The model of this recorder is the first one now. */
  begin(recorder: Recorder): void {
    this.#recorder = recorder;
  }

  /** Says how things are, now or in a moment. */
  tell(): void {
    if (this.#timer !== undefined) return;
    const wait = Math.max(0, this.#told + LEAST_PAUSE_MS - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#told = performance.now();
      this.#tell(this.#wire());
    }, wait);
  }

  #wire(): Wire {
    const sum = { requests: 0, roundTrips: 0, bytesFetched: 0, cacheHits: 0, cacheBytes: 0, retries: 0 };
    for (const { stats } of this.#models()) for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += stats[key];
    const arrived = this.#recorder?.arrived.splice(0) ?? [];
    return { ...sum, busyMs: this.#recorder?.busyMs ?? 0, arrived };
  }
}
