/** Reads parts of packed tensors: plans the ranges to fetch, and decodes them. */

import { uncompared } from "./mixed-versions.js";
import { readRanges, parseRanges, totalBytes } from "./byte-ranges.js";
import type { CoreModel, CorePart, ModelInstance } from "./core.js";
import { ProgressMeter } from "./progress.js";
import type { ByteSpan } from "./rows.js";
import type { ReadOptions, Source } from "./source/source.js";
import { parsePlanes } from "./stored-planes.js";
import type { StoredPart, StoredPlane, TensorInfo } from "./tensor.js";

/** The members of the base model that reads of parts use. */
interface BaseModel {
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  readSpan(info: TensorInfo, span: ByteSpan, signal: AbortSignal, meter: ProgressMeter): Promise<Uint8Array<ArrayBuffer>>;
}

/** The context of a read, for tensors that need more than the ranges of a part. */
export interface PartContext {
  readonly signal: AbortSignal;
  readonly meter: ProgressMeter;
  /** The number of bytes that `meter` expects for the part already; absent if there are none. */
  readonly expectedBytes?: number;
  /** Reads and decodes the whole tensor. */
  readWhole(): Promise<Uint8Array<ArrayBuffer>>;
  readonly base: BaseModel | undefined;
}

/** Plans and reads parts of the tensors of one model. */
export class RowPlanner {
  readonly #instance: ModelInstance;
  readonly #core: CoreModel;
  readonly #sources: readonly Source[];
  /**
   * Block tables, and in deltas the heads of frames, that have been read, by their ranges. They are small compared with
   * their tensors. Tensors in the same frame share a table.
   */
  readonly #tables = new Map<string, Uint8Array>();

  #indices: ReadonlyMap<string, number> | undefined;

  constructor(instance: ModelInstance, core: CoreModel, sources: readonly Source[]) {
    this.#instance = instance;
    this.#core = core;
    this.#sources = uncompared(sources);
  }

  /** Returns a plan for some bytes. The caller frees it. Reads the tensor's block table if necessary. */
  async plan(index: number, [begin, end]: ByteSpan, options: ReadOptions): Promise<CorePart> {
    const table = await this.#table(index, options);
    // The core of a closed model has been freed and must not be called.
    options.signal?.throwIfAborted();
    return this.#instance.call(() => this.#core.part(index, begin, end, table));
  }

  /** Returns the ranges to fetch for some bytes; `undefined` if the whole tensor has to be read. */
  async parts(index: number, span: ByteSpan, options: ReadOptions): Promise<StoredPart[] | undefined> {
    if (span[0] === span[1]) return [];
    return this.#planned(index, span, options, (plan) => parseRanges(plan.ranges()));
  }

  /**
   * Returns the number of bytes that are decoded together around `position`, a position in the tensor in bytes. Returns
   * 0 for a tensor that is not stored in blocks, and `undefined` for one that can only be read as a whole.
   */
  async bandBytes(index: number, position: number, options: ReadOptions): Promise<number | undefined> {
    return this.#planned(index, [position, position + 1], options, (plan) => plan.bandBytes());
  }

  /** Returns a property of the plan for some bytes; `undefined` if the whole tensor has to be read. */
  async #planned<T>(index: number, span: ByteSpan, options: ReadOptions, property: (plan: CorePart) => T): Promise<T | undefined> {
    const plan = await this.plan(index, span, options);
    const value = this.#instance.call(() => (plan.isWhole() ? undefined : property(plan)));
    this.#instance.free(plan);
    return value;
  }

  /** Returns the sizes of a tensor's planes; `undefined` for a tensor without a block table. Reads the table if necessary. */
  async planes(index: number, options: ReadOptions): Promise<StoredPlane[] | undefined> {
    const table = await this.#table(index, options);
    options.signal?.throwIfAborted();
    const lines = this.#instance.call(() => this.#core.planeSizes(index, table));
    return lines === undefined ? undefined : parsePlanes(lines);
  }

  /** Returns the index of a tensor. `tensors` are all tensors of the model, in order. */
  indexOf(name: string, tensors: ReadonlyMap<string, unknown>): number {
    this.#indices ??= new Map([...tensors.keys()].map((key, index) => [key, index]));
    return this.#indices.get(name)!;
  }

  /** Returns the tensor of `base` that a tensor depends on. */
  inBase(index: number, base: BaseModel | undefined): TensorInfo | undefined {
    return base?.tensors.get(this.#instance.call(() => this.#core.nameInBase(index))!);
  }

  /** Fetches and decodes some bytes of a tensor. */
  async read(index: number, { byteLength, base: use }: TensorInfo, span: ByteSpan, { signal, meter, expectedBytes = 0, readWhole, base }: PartContext): Promise<Uint8Array<ArrayBuffer>> {
    const [begin, end] = span;
    if (begin === end) return new Uint8Array(0);
    const plan = await this.plan(index, span, { signal });
    try {
      const parts = this.#instance.call(() => (plan.isWhole() ? undefined : parseRanges(plan.ranges())));
      if (!parts) {
        const whole = await readWhole();
        return end - begin === byteLength ? whole : whole.slice(begin, end);
      }
      meter.expectMore(totalBytes(parts) - expectedBytes);
      const inBase = use && this.inBase(index, base);
      const [first, last] = (inBase && this.#instance.call(() => plan.base())) ?? [];
      const [fetched, ofBase] = await Promise.all([
        readRanges(this.#sources, parts, { signal, onBytes: meter.arrived }),
        last ? base!.readSpan(inBase!, [first!, last], signal, new ProgressMeter(undefined, { stage: "tensor" })) : undefined,
      ]);
      signal.throwIfAborted();
      return this.#instance.call(() => plan.decode(fetched, ofBase));
    } finally {
      this.#instance.free(plan);
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
