/** The network log: the counters of all models, and the fetched ranges of the first model's file. */

import type { Model, Source } from "zstn";
import type { ByteRange, NetworkStats } from "./protocol.js";

/** The minimum interval between updates, in milliseconds. */
const MIN_INTERVAL_MS = 80;

/** Records ranges and times of the requests of one model. */
export interface Recorder {
  readonly fetch: typeof fetch;
  readonly file: (file: File) => Source;
  arrived: ByteRange[];
  busyMs: number;
}

export class NetworkLog {
  readonly #models: () => Iterable<Model>;
  readonly #onUpdate: (stats: NetworkStats) => void;
  #recorder: Recorder | undefined;
  #publishedMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(models: () => Iterable<Model>, onUpdate: (stats: NetworkStats) => void) {
    this.#models = models;
    this.#onUpdate = onUpdate;
  }

  /** Returns a recorder for a model to be opened. */
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

  /** Makes the model of this recorder the first one. */
  begin(recorder: Recorder): void {
    this.#recorder = recorder;
  }

  /** Publishes the counters, throttled. */
  publish(): void {
    if (this.#timer !== undefined) return;
    const wait = Math.max(0, this.#publishedMs + MIN_INTERVAL_MS - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#publishedMs = performance.now();
      this.#onUpdate(this.#stats());
    }, wait);
  }

  #stats(): NetworkStats {
    const sum = { requests: 0, roundTrips: 0, bytesFetched: 0, cacheHits: 0, cacheBytes: 0, retries: 0 };
    for (const { stats } of this.#models()) for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += stats[key];
    const arrived = this.#recorder?.arrived.splice(0) ?? [];
    return { ...sum, busyMs: this.#recorder?.busyMs ?? 0, arrived };
  }
}
