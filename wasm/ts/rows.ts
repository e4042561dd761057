/** Some rows of a tensor: what to fetch for them, and the rows from that. */

import type { CoreModel, CoreRows } from "./core.js";
import { InvalidInputError } from "./errors.js";
import { readParts, storedParts } from "./parts.js";
import { guarded } from "./rejection.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart, StoredPlane, TensorInfo } from "./tensor.js";

/** Rows of a tensor, slices of its outermost dimension: the first one and the one to stop before. */
export type RowRange = readonly [begin: number, end: number];

/** What reading a tensor or some rows of it will fetch. */
export interface ReadPlan {
  /** Whether all stored bytes of the tensor are needed, though only some rows may be wanted: it is not stored in blocks. */
  readonly whole: boolean;
  /** Bytes to fetch; in a delta without those of the base. */
  readonly bytes: number;
  /** Where they lie. */
  readonly parts: readonly StoredPart[];
}

/** The description of those rows. Refuses rows that the tensor does not have. */
export function rowsInfo(info: TensorInfo, [begin, end]: RowRange): TensorInfo {
  const [count, ...rest] = info.shape;
  if (count === undefined) throw new InvalidInputError(`${info.name} is a scalar and has no rows.`);
  if (!Number.isInteger(begin) || !Number.isInteger(end) || begin < 0 || begin > end || end > count) {
    throw new InvalidInputError(`Rows ${begin} to ${end} are not a part of ${info.name}, which has ${count}.`);
  }
  return { ...info, shape: [end - begin, ...rest], byteLength: count === 0 ? 0 : (info.byteLength / count) * (end - begin) };
}

/** Plans of rows, for the tensors of one model. */
export class RowPlanner {
  readonly #core: CoreModel;
  readonly #sources: readonly Source[];
  /** Block tables that have been read, by number of the tensor. They are small. */
  readonly #tables = new Map<number, Uint8Array>();

  constructor(core: CoreModel, sources: readonly Source[]) {
    this.#core = core;
    this.#sources = sources;
  }

  /** A plan, to be freed by the caller. Reads the block table of the tensor if it takes one. */
  async plan(index: number, [begin, end]: RowRange, options: ReadOptions): Promise<CoreRows> {
    const table = await this.#table(index, options);
    // A closed model has nothing to ask.
    options.signal?.throwIfAborted();
    return guarded(() => this.#core.rows(index, begin, end, table));
  }

  /** What the planes of a tensor take, if its block table says it, which is read if need be. */
  async planes(index: number, options: ReadOptions): Promise<StoredPlane[] | undefined> {
    const table = await this.#table(index, options);
    // A closed model has nothing to ask.
    options.signal?.throwIfAborted();
    return guarded(() => this.#core.planeSizes(index, table));
  }

  async #table(index: number, options: ReadOptions): Promise<Uint8Array | undefined> {
    const [place] = storedParts(guarded(() => this.#core.blockTable(index)));
    const known = this.#tables.get(index);
    if (!place || known) return known;
    const [table] = await readParts(this.#sources, [place], options);
    this.#tables.set(index, new Uint8Array(table!));
    return table;
  }

  /** Fetches and decodes what has been planned. */
  async read(rows: CoreRows, options: ReadOptions): Promise<Uint8Array<ArrayBuffer>> {
    const parts = storedParts(guarded(() => rows.ranges()));
    const fetched = await readParts(this.#sources, parts, options);
    options.signal?.throwIfAborted();
    return guarded(() => rows.decode(fetched));
  }
}

/** The rows out of the bytes of all of the tensor, in memory of their own. */
export function rowsOfWhole(rows: CoreRows, raw: Uint8Array): Uint8Array<ArrayBuffer> {
  const [begin, end] = guarded(() => rows.span());
  return new Uint8Array(raw.subarray(begin, end));
}
