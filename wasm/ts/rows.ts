/** Reading some rows of a tensor: what to fetch, and decoding it. */

import type { CoreRows, ModelInstance, ModelLayout } from "./core.js";
import { InvalidInputError } from "./errors.js";
import { readRanges, parseRanges } from "./byte-ranges.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart, StoredPlane, TensorInfo } from "./tensor.js";

/** A range of rows, slices of the outermost dimension: the first one and the one to stop before. */
export type RowRange = readonly [begin: number, end: number];

/** What reading a tensor, or some of its rows, will fetch. */
export interface ReadPlan {
  /** Whether all stored bytes of the tensor are fetched. True for some rows of a tensor that is not stored in blocks. */
  readonly whole: boolean;
  /** The number of bytes to fetch, without those of a delta's base. */
  readonly bytes: number;
  /** The ranges to fetch. */
  readonly parts: readonly StoredPart[];
}

/** Returns the description of some rows. Throws if the tensor does not have them. */
export function rowsInfo(info: TensorInfo, [begin, end]: RowRange): TensorInfo {
  const [count, ...rest] = info.shape;
  if (count === undefined) throw new InvalidInputError(`${info.name} is a scalar and has no rows.`);
  if (!Number.isInteger(begin) || !Number.isInteger(end) || begin < 0 || begin > end || end > count) {
    throw new InvalidInputError(`Rows ${begin} to ${end} are out of range: ${info.name} has ${count}.`);
  }
  return { ...info, shape: [end - begin, ...rest], byteLength: count === 0 ? 0 : (info.byteLength / count) * (end - begin) };
}

/** Plans and reads rows of the tensors of one model. */
export class RowPlanner {
  readonly #instance: ModelInstance;
  readonly #core: ModelLayout;
  readonly #sources: readonly Source[];
  /** Block tables that have been read, by index of the tensor. They are small. */
  readonly #tables = new Map<number, Uint8Array>();

  constructor(instance: ModelInstance, core: ModelLayout, sources: readonly Source[]) {
    this.#instance = instance;
    this.#core = core;
    this.#sources = sources;
  }

  /** Returns a plan, which the caller frees. Reads the tensor's block table if necessary. */
  async plan(index: number, [begin, end]: RowRange, options: ReadOptions): Promise<CoreRows> {
    const table = await this.#table(index, options);
    // The core of a closed model has been freed.
    options.signal?.throwIfAborted();
    return this.#instance.call(() => this.#core.rows(index, begin, end, table));
  }

  /** Returns the sizes of a tensor's planes, if it has a block table. Reads that if necessary. */
  async planes(index: number, options: ReadOptions): Promise<StoredPlane[] | undefined> {
    const table = await this.#table(index, options);
    // The core of a closed model has been freed.
    options.signal?.throwIfAborted();
    const lines = this.#instance.call(() => this.#core.planeSizes(index, table));
    return lines?.trimEnd().split("\n").map((line) => {
      const [name, method, byteLength, storedLength] = line.split("\t") as [string, string, string, string];
      return { name, method, byteLength: Number(byteLength), storedLength: Number(storedLength) };
    });
  }

  async #table(index: number, options: ReadOptions): Promise<Uint8Array | undefined> {
    const [place] = parseRanges(this.#instance.call(() => this.#core.blockTable(index)));
    const known = this.#tables.get(index);
    if (!place || known) return known;
    const [table] = await readRanges(this.#sources, [place], options);
    this.#tables.set(index, new Uint8Array(table!));
    return table;
  }

  /** Fetches and decodes the rows of a plan. */
  async read(rows: CoreRows, options: ReadOptions): Promise<Uint8Array<ArrayBuffer>> {
    const parts = parseRanges(this.#instance.call(() => rows.ranges()));
    const fetched = await readRanges(this.#sources, parts, options);
    options.signal?.throwIfAborted();
    return this.#instance.call(() => rows.decode(fetched));
  }

  /** Returns a copy of the planned rows from the bytes of the whole tensor. */
  rowsOfWhole(rows: CoreRows, raw: Uint8Array): Uint8Array<ArrayBuffer> {
    const [begin, end] = this.#instance.call(() => rows.span());
    return new Uint8Array(raw.subarray(begin, end));
  }
}
