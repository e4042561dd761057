/** Reads ranges of rows of packed tensors: plans the ranges to fetch, and decodes them. */

import { uncompared } from "./mixed-versions.js";
import { readRanges, parseRanges, totalBytes } from "./byte-ranges.js";
import type { CoreModel, CoreRows, ModelInstance } from "./core.js";
import type { ProgressMeter } from "./progress.js";
import type { RowRange } from "./rows.js";
import type { ReadOptions, Source } from "./source/source.js";
import { parsePlanes } from "./stored-planes.js";
import type { StoredPart, StoredPlane, TensorInfo } from "./tensor.js";

/** The members of the base model that row reads use. */
interface BaseModel {
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  tensor(name: string, options: { rows: RowRange; signal: AbortSignal }): Promise<{ bytes: Uint8Array }>;
}

/** The context of a row read, for tensors that need more than the ranges of the rows. */
export interface RowContext {
  readonly signal: AbortSignal;
  readonly meter: ProgressMeter;
  /** Reads and decodes the whole tensor. */
  readWhole(): Promise<Uint8Array>;
  readonly base: BaseModel | undefined;
}

/** Plans and reads rows of the tensors of one model. */
export class RowPlanner {
  readonly #instance: ModelInstance;
  readonly #core: CoreModel;
  readonly #sources: readonly Source[];
  /**
   * Block tables, and in deltas the heads of frames, that have been read, by their ranges. They are small compared with
   * their tensors. Tensors in the same frame share a table.
   */
  readonly #tables = new Map<string, Uint8Array>();

  constructor(instance: ModelInstance, core: CoreModel, sources: readonly Source[]) {
    this.#instance = instance;
    this.#core = core;
    this.#sources = uncompared(sources);
  }

  /** Returns a plan for some rows. The caller frees it. Reads the tensor's block table if necessary. */
  async plan(index: number, [begin, end]: RowRange, options: ReadOptions): Promise<CoreRows> {
    const table = await this.#table(index, options);
    // The core of a closed model has been freed and must not be called.
    options.signal?.throwIfAborted();
    return this.#instance.call(() => this.#core.rows(index, begin, end, table));
  }

  /** Returns the ranges to fetch for some rows; `undefined` if the whole tensor has to be read. */
  async parts(index: number, range: RowRange, options: ReadOptions): Promise<StoredPart[] | undefined> {
    const rows = await this.plan(index, range, options);
    const parts = this.#parts(rows);
    this.#instance.free(rows);
    return parts;
  }

  #parts(rows: CoreRows): StoredPart[] | undefined {
    return this.#instance.call(() => (rows.isWhole() ? undefined : parseRanges(rows.ranges())));
  }

  /** Returns the sizes of a tensor's planes; `undefined` for a tensor without a block table. Reads the table if necessary. */
  async planes(index: number, options: ReadOptions): Promise<StoredPlane[] | undefined> {
    const table = await this.#table(index, options);
    options.signal?.throwIfAborted();
    const lines = this.#instance.call(() => this.#core.planeSizes(index, table));
    return lines === undefined ? undefined : parsePlanes(lines);
  }

  /** Fetches and decodes rows. Resolves to their raw little-endian bytes. */
  async read(index: number, name: string, range: RowRange, { signal, meter, readWhole, base }: RowContext): Promise<Uint8Array<ArrayBuffer>> {
    const rows = await this.plan(index, range, { signal });
    try {
      const parts = this.#parts(rows);
      if (!parts) {
        const [begin, end] = this.#instance.call(() => rows.span());
        return new Uint8Array((await readWhole()).subarray(begin, end));
      }
      meter.expect(totalBytes(parts));
      const inBase = base?.tensors.get(name);
      const [first, last, begin, end] = (inBase && this.#instance.call(() => rows.baseRows(inBase.shape[0]!, inBase.byteLength))) ?? [];
      const [fetched, ofBase] = await Promise.all([
        readRanges(this.#sources, parts, { signal, onBytes: meter.arrived }),
        last ? base!.tensor(name, { rows: [first!, last], signal }) : undefined,
      ]);
      signal.throwIfAborted();
      return this.#instance.call(() => rows.decode(fetched, ofBase?.bytes.subarray(begin, end)));
    } finally {
      this.#instance.free(rows);
    }
  }

  async #table(index: number, options: ReadOptions): Promise<Uint8Array | undefined> {
    let known: Uint8Array | undefined;
    let key: string | undefined;
    for (;;) {
      options.signal?.throwIfAborted();
      const place = this.#instance.call(() => (known ? this.#core.longerTable(index, known) : this.#core.blockTable(index)));
      if (!place?.length) return known;
      key ??= `${place}`;
      const table = known ? undefined : this.#tables.get(key);
      known = table ?? new Uint8Array((await readRanges(this.#sources, parseRanges(place), options))[0]!);
      this.#tables.set(key, known);
    }
  }
}
