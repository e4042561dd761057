/** The network log: the counters of all models, and the fetched ranges of the first model's file. */

import type { Model, Source } from "zstn";
import { FetchedRanges } from "./fetched-ranges.js";
import type { ByteRange, NetworkStats } from "./protocol.js";

/** The minimum interval between updates, in milliseconds. */
const MIN_INTERVAL_MS = 80;

/** Records the ranges and the times of the requests of one model. */
export interface Recorder {
  readonly fetch: typeof fetch;
  readonly file: (file: File) => Source;
  /** The ranges that have arrived, by file. `arrived` are the ranges of a single file since the last update. */
  readonly fetched: Map<string, FetchedRanges>;
  arrived: ByteRange[];
  readonly busy: BusyClock;
}

/** Measures the time during which at least one request of the recorded models is in flight. */
export class BusyClock {
  #underWay = 0;
  #sinceMs = 0;
  #sumMs = 0;

  /** The total time so far, in milliseconds. */
  get milliseconds(): number {
    return this.#sumMs + (this.#underWay > 0 ? performance.now() - this.#sinceMs : 0);
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    if (this.#underWay++ === 0) this.#sinceMs = performance.now();
    try {
      return await work();
    } finally {
      if (--this.#underWay === 0) this.#sumMs += performance.now() - this.#sinceMs;
    }
  }
}

export class NetworkLog {
  readonly #models: () => Iterable<Model>;
  readonly #onUpdate: (stats: NetworkStats) => void;
  /** The recorders of the first and the second model. */
  #recorder: Recorder | undefined;
  #secondRecorder: Recorder | undefined;
  #publishedMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(models: () => Iterable<Model>, onUpdate: (stats: NetworkStats) => void) {
    this.#models = models;
    this.#onUpdate = onUpdate;
  }

  /**
   * Returns a recorder for a model that is about to be opened. Models that are open together share a clock, by default
   * the clock of the first model.
   */
  recorder(busy = this.#recorder?.busy ?? new BusyClock()): Recorder {
    const record = (file: string, range: ByteRange): void => {
      let ranges = recorder.fetched.get(file);
      if (!ranges) recorder.fetched.set(file, (ranges = new FetchedRanges()));
      ranges.add(range);
      const last = recorder.arrived.at(-1);
      if (last?.end === range.begin) recorder.arrived[recorder.arrived.length - 1] = { begin: last.begin, end: range.end };
      else recorder.arrived.push(range);
    };
    const recorder: Recorder = {
      fetched: new Map(),
      arrived: [],
      busy,
      fetch: (input, init) =>
        busy.during(async () => {
          const response = await fetch(input, init);
          const range = /^bytes=(\d+)-\d+$/.exec(new Headers(init?.headers).get("range") ?? "");
          if (response.status !== 206 || !range || !response.body) return response;
          const url = String(input instanceof Request ? input.url : input);
          // The response is modified in place, because a new one would have no URL.
          return Object.defineProperty(response, "body", { value: counted(response.body, Number(range[1]), (part) => record(url, part)) });
        }),
      file: (file) => ({
        name: file.name,
        size: () => file.size,
        read: (offset, length) =>
          busy.during(async () => {
            const bytes = await file.slice(offset, offset + length).arrayBuffer().catch((cause: unknown) => {
              throw new Error(`${file.name} could not be read. If it was changed or moved, choose it again.`, { cause });
            });
            record(file.name, { begin: offset, end: offset + length });
            return new Uint8Array(bytes);
          }),
      }),
    };
    return recorder;
  }

  /** Sets the recorder of the first model. */
  begin(recorder: Recorder): void {
    this.#recorder = recorder;
  }

  /** Sets the recorder of the second model; `undefined` if there is none. */
  beginSecond(recorder: Recorder | undefined): void {
    this.#secondRecorder = recorder;
  }

  /** Publishes the counters soon, at most once in `MIN_INTERVAL_MS`. */
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
    const recorders = [this.#recorder, this.#secondRecorder].filter((recorder) => recorder !== undefined);
    const unique = recorders.reduce((total, { fetched }) => [...fetched.values()].reduce((bytes, ranges) => bytes + ranges.bytes, total), 0);
    const arrived = this.#recorder?.arrived.splice(0) ?? [];
    const busyMs = this.#recorder?.busy.milliseconds ?? 0;
    // Files that are downloaded whole have no recorded ranges.
    const uniqueBytes = unique === 0 ? sum.bytesFetched : Math.min(unique, sum.bytesFetched);
    return { ...sum, busyMs, uniqueBytes, arrived: (this.#recorder?.fetched.size ?? 0) > 1 ? [] : arrived };
  }
}

/**
 * Returns a copy of the stream that calls `onRange` with the range of every chunk. The first chunk begins at `offset`
 * in the file.
 */
function counted(body: ReadableStream<Uint8Array<ArrayBuffer>>, offset: number, onRange: (range: ByteRange) => void): ReadableStream<Uint8Array<ArrayBuffer>> {
  return body.pipeThrough(
    new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(chunk, controller) {
        onRange({ begin: offset, end: offset + chunk.byteLength });
        offset += chunk.byteLength;
        controller.enqueue(chunk);
      },
    }),
  );
}
