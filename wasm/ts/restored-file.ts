/** The file that a packed file restores: its bytes are decoded from the entries of the packed file when they are read. */

import { abortSiblingsOnFailure } from "./abort-siblings.js";
import { describe } from "./core-description.js";
import { readRanges } from "./byte-ranges.js";
import type { CoreInstance, CoreModel, CoreUnpacked } from "./core.js";
import type { Decoding } from "./decode/worker-pool.js";
import { ModelClosedError, hasCode, type LimitError } from "./errors.js";
import { checkSize } from "./limits.js";
import type { CoreFile, Original, ViewedTensor, Views } from "./opened-file.js";
import { ProgressMeter } from "./progress.js";
import { RowPlanner } from "./row-planner.js";
import { TensorCache } from "./safetensors-view/tensor-cache.js";
import { VirtualFile } from "./safetensors-view/virtual-file.js";
import type { OpenContext } from "./shards.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart, TensorInfo } from "./tensor.js";

/** The size of the cache of decoded entries, in bytes. */
export const CACHE_BYTES = 64 << 20;

/** Entries of at most this many bytes are decoded as a whole, since further ranges of them usually follow. */
const SMALL_BYTES = 1 << 20;

/** The progress of reads that report none. */
const SILENT = new ProgressMeter(undefined, { stage: "tensor" });

/** A part of an entry: its index, and the range in its decoded bytes. */
type EntryPart = [entry: number, begin: number, end: number];

/** How a part of an entry is read. */
interface PartOptions {
  signal: AbortSignal;
  meter: ProgressMeter;
  /** The number of bytes that `meter` expects for the part. */
  expectedBytes: number;
}

/** The file that a packed file restores. */
export class RestoredFile implements Source, Original, Views {
  /**
   * Whether the packed file lists all tensors. Then only metadata are read from this file, which are in the spans
   * between the tensors: the bytes of tensors do not matter, and are zeros.
   */
  readonly #isComplete: boolean;
  /** Whether reads of tensors compare digests of whole entries. */
  readonly #full: boolean;
  readonly #core: CoreInstance;
  readonly #source: Source;
  /** The entries of the packed file, which fill the restored one. */
  readonly #model: CoreModel;
  readonly #layout: CoreUnpacked;
  readonly #infos: readonly TensorInfo[];
  readonly #file: VirtualFile;
  readonly #rows: RowPlanner;
  readonly #cache: TensorCache;
  readonly #cacheBytes: number;
  readonly #decoding: () => Promise<Decoding>;
  /** The decoder of the model; `undefined` before its first use. */
  #started: Promise<Decoding> | undefined;
  /** The end of the last range that was read of each entry. */
  readonly #ends = new Map<number, number>();
  /** Aborts at once when this file is closed. The memory of the core has then been freed, and must not be used. */
  readonly #closing = new AbortController();
  /** The first error of reading the packed file, other than a limit; `undefined` if there was none. */
  #failure: unknown;

  constructor({ core, catalog, source }: CoreFile, isComplete: boolean, { full, decoding }: Pick<OpenContext, "full" | "decoding">, cacheBytes = CACHE_BYTES) {
    this.#isComplete = isComplete;
    this.#cacheBytes = cacheBytes;
    this.#full = full;
    this.#core = core;
    this.#source = source;
    this.#decoding = decoding;
    this.#model = core.call(({ Assembly }) => new Assembly([catalog.entries()], undefined, undefined).finish(full));
    this.#infos = describe(core, this.#model).tensors;
    this.#layout = core.call(() => this.#model.unpacked());
    this.#rows = new RowPlanner(core, this.#model, [source]);
    this.#cache = new TensorCache(cacheBytes, (index, signal) => this.#decode(index, signal));
    this.#file = new VirtualFile(core, this.#layout, (index, begin, end, signal) => this.#part(index, begin, end, signal));
  }

  get failure(): unknown {
    return this.#failure;
  }

  get pinned(): Source["pinned"] {
    return this.#source.pinned;
  }

  size(): number {
    return this.#file.size();
  }

  /** Returns the lengths of the parts of this file that are in different entries, in their order. */
  partLengths(): number[] {
    const parts = this.#core.call(() => this.#layout.tensors(0, this.size()));
    return Array.from({ length: parts.length / 3 }, (_, i) => parts[3 * i + 2]! - parts[3 * i + 1]!);
  }

  async read(offset: number, length: number, options: ReadOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    try {
      const bytes = await this.#whileOpen(options.signal, (signal) => this.#file.read(offset, length, { ...options, signal }));
      options.onBytes?.(length);
      return bytes;
    } catch (error) {
      if (!hasCode<LimitError>(error, "limit")) this.#failure ??= error;
      throw error;
    }
  }

  /** Frees the memory of the packed file. */
  free(): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new ModelClosedError());
    this.#core.free(this.#layout);
    this.#core.free(this.#model);
  }

  /** Frees the memory of the packed file, and stops the workers that this file started for its model alone. */
  async close(): Promise<void> {
    this.free();
    const decoding = await this.#started?.catch(() => undefined);
    decoding?.ownPool?.close();
  }

  readView({ model, index, info }: ViewedTensor, signal: AbortSignal, meter: ProgressMeter, into: Uint8Array<ArrayBuffer> | undefined): Promise<Uint8Array<ArrayBuffer>> | undefined {
    const view = this.#view(model, index);
    return view && this.#whileOpen(signal, async (signal) => {
      const options = { signal, meter, expectedBytes: info.storedLength };
      const bytes = await (this.#full ? this.#wholePart(...view, options) : this.#entryPart(...view, options));
      // The core of a closed model has been freed and must not be called.
      signal.throwIfAborted();
      const values = this.#core.call(() => model.valuesOfPart(index, bytes));
      into?.set(values);
      return into ?? values;
    });
  }

  async planView(model: CoreModel, index: number, info: TensorInfo, signal: AbortSignal): Promise<StoredPart[] | undefined> {
    const view = this.#view(model, index);
    if (!view || this.#full || !this.#isCut(...view)) return undefined;
    const [entry, begin, end] = view;
    const planned = await this.#rows.parts(entry, [begin, end], { signal });
    return planned?.map((part) => ({ ...part, file: info.parts[0]!.file }));
  }

  /** Returns the part of an entry that holds a tensor: the index of the entry, and the range in it. */
  #view(model: CoreModel, index: number): EntryPart | undefined {
    return this.#core.call(() => {
      const [offset, length] = model.partOfEntry(index);
      if (offset === undefined || length === undefined) return undefined;
      const [entry, begin, end] = this.#layout.tensors(offset, offset + length);
      return [entry!, begin!, end!];
    });
  }

  /** Reads a part of an entry of the original, whose metadata are read if all tensors are listed. */
  async #part(index: number, begin: number, end: number, signal = new AbortController().signal): Promise<Uint8Array> {
    if (this.#isComplete && !this.#infos[index]!.name.startsWith("@")) return new Uint8Array(end - begin);
    return this.#entryPart(index, begin, end, { signal, meter: SILENT, expectedBytes: 0 });
  }

  /** Reads a part of an entry: only the blocks that contain it, if the entry is long and has blocks; otherwise the whole entry. */
  async #entryPart(index: number, begin: number, end: number, options: PartOptions): Promise<Uint8Array> {
    const info = this.#infos[index]!;
    const { byteLength } = info;
    const isCut = this.#isCut(index, begin, end);
    this.#ends.set(index, end);
    if (!isCut) return this.#wholePart(index, begin, end, options);
    if (end - begin === byteLength) return this.#decode(index, options.signal);
    checkSize({ ...info, byteLength: end - begin, storedLength: 0 });
    return this.#rows.read(index, info, [begin, end], { ...options, readWhole: () => this.#wholePart(index, 0, byteLength, options), base: undefined });
  }

  /** Reads a part of an entry, which is decoded as a whole. */
  async #wholePart(index: number, begin: number, end: number, { signal, meter, expectedBytes }: PartOptions): Promise<Uint8Array<ArrayBuffer>> {
    const { byteLength, storedLength } = this.#infos[index]!;
    const isCached = this.#cache.has(index);
    const entry = await this.#cache.get(index, byteLength, signal);
    if (isCached) {
      meter.expectMore(-expectedBytes);
    } else {
      meter.expect(storedLength);
      meter.arrived(storedLength);
    }
    return entry.subarray(begin, end);
  }

  /**
   * Returns whether a part of an entry is read without decoding the whole entry into the cache. An entry that is read
   * from its start to its end is decoded once, and so is one whose rows are long.
   */
  #isCut(index: number, begin: number, end: number): boolean {
    const { shape, byteLength } = this.#infos[index]!;
    if (byteLength <= SMALL_BYTES || this.#cache.has(index)) return false;
    const continues = begin > 0 && this.#ends.get(index) === begin && end < byteLength;
    return end - begin === byteLength || byteLength > this.#cacheBytes || !(continues || byteLength > SMALL_BYTES * shape[0]!);
  }

  #decode(index: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const info = this.#infos[index]!;
    // The signal of the cache aborts some time after this file is closed, which is too late for the core.
    return this.#whileOpen(signal, async (signal) => {
      checkSize(info);
      const { decoder } = await (this.#started ??= this.#decoding());
      const sources = [this.#source];
      const parts = await readRanges(sources, info.parts, { signal });
      signal.throwIfAborted();
      return decoder.decode({ instance: this.#core, model: this.#model, index, info, sources, parts, reference: undefined, into: undefined, signal });
    });
  }

  /** Runs `work` with a signal that aborts with `signal` or when this file is closed. */
  #whileOpen<T>(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return abortSiblingsOnFailure([this.#closing.signal, signal], work);
  }
}
