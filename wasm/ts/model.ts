/// <reference lib="esnext.disposable" preserve="true" />
/** An open model: its tensors, and reading them. */

import type { CoreInstance, CoreModel, CoreUnpacked, ModelInstance } from "./core.js";
import { loadCoreFiles } from "./core-files-loader.js";
import type { Decoding } from "./decode/pool.js";
import { outputView } from "./decode/output-buffer.js";
import { typedArray } from "./dtype.js";
import { FormatError, InvalidInputError, ModelClosedError, type ZstnError } from "./errors.js";
import { missingTensor } from "./missing-tensor.js";
import { totalBytes, readRanges } from "./byte-ranges.js";
import { ProgressMeter } from "./progress.js";
import type { Description } from "./description.js";
import type { RowPlanner } from "./row-planner.js";
import { rowsInfo } from "./rows.js";
import type { ReadPlan, RowRange } from "./rows.js";
import { abortSiblingsOnFailure } from "./abort-siblings.js";
import type { StatisticsOptions, StoredStatistics, TensorStatistics } from "./statistics.js";
import { DEFAULT_READ_AHEAD_BYTES, checkAhead, inOrder } from "./stream.js";
import type { Ahead, StreamOptions } from "./stream.js";
import { PlainModel } from "./safetensors/plain-model.js";
import { plainRows, readPlainRows } from "./safetensors/plain-rows.js";
import type { Source } from "./source/source.js";
import type { Stats, Traffic } from "./source/traffic.js";
import { checkRowsSize, checkSize } from "./limits.js";
import { createTensor } from "./tensor.js";
import type { ModelKind } from "./model-kind.js";
import type { StoredPlane, Tensor, TensorInfo } from "./tensor.js";
import type { OpenedModel } from "./opened-model.js";
import type { PlanOptions, TensorOptions } from "./tensor-options.js";
import type { SafetensorsBlob } from "./safetensors-view/blob.js";
import { modelBlob } from "./safetensors-view/model-file.js";
import type { SafetensorsBlobOptions } from "./safetensors-view/model-file.js";

/** An open model in one or more files, created by `open`. */
export class Model {
  /**
   * The format of the files: `"zstn"`, `"safetensors"`, `"ztensor"`, `"gauss"`, or `"z4dm"` for a delta;
   * `"compressed-tensors"` if weights are stored in parts that `config.json` describes.
   */
  readonly kind: ModelKind;
  /** Total length of all files, in bytes. */
  readonly size: number;
  /**
   * Total length of the safetensors files that the model was packed from, in bytes. Equal to `size` for plain
   * safetensors. For other formats (zTensor, Gauss, compressed-tensors), the total length of all tensors.
   */
  readonly originalSize: number;
  /** The number of files. */
  readonly fileCount: number;
  /** The `__metadata__` of the safetensors headers, or the text attributes of a zTensor file; empty if there are none. */
  readonly metadata: Readonly<Record<string, string>>;
  /** All tensors by name, file by file, in the order of their data (zTensor: in the order of the file's list). */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** Weights that cannot be read because their parts or their description are damaged or unknown, with the reason. */
  readonly unreadable: ReadonlyMap<string, ZstnError>;
  /** Live counters of what reading has cost. Reads of the base count in `base.stats`. */
  readonly stats: Stats;

  readonly #opened: OpenedModel;
  readonly #sources: readonly Source[];
  readonly #instance: ModelInstance;
  readonly #core: CoreModel | PlainModel;
  readonly #indices = new Map<string, number>();
  readonly #closing = new AbortController();
  readonly #decoding: Decoding | undefined;
  #rows: RowPlanner | undefined;
  #unpacked: CoreUnpacked | undefined;
  #statistics: StoredStatistics | undefined;
  #base: Model | undefined;
  #ownsBase = false;

  /** @internal */
  constructor(opened: OpenedModel, description: Description, traffic: Traffic, decoding: Decoding | undefined) {
    const { files, instance, model } = opened;
    this.#opened = opened;
    this.#sources = files.map(({ source }) => source);
    this.#instance = instance;
    this.#core = model;
    this.#decoding = decoding;
    this.size = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    this.fileCount = files.length;
    this.stats = traffic;
    this.kind = description.kind;
    this.originalSize = description.originalSize;
    this.metadata = Object.freeze(description.metadata);
    const tensors = new Map<string, TensorInfo>();
    for (const [index, info] of description.tensors.entries()) {
      tensors.set(info.name, Object.freeze(info));
      this.#indices.set(info.name, index);
    }
    this.tensors = tensors;
    this.unreadable = new Map(description.refused.map((error) => [("tensor" in error && error.tensor) || "", error] as [string, ZstnError]));
  }

  /** The model that this delta was opened with; `undefined` for other files. */
  get base(): Model | undefined {
    return this.#base;
  }

  /** @internal Identifies this version of all files, where something does. */
  get version(): string | undefined {
    const versions = this.#sources.map((source) => source.version);
    if (this.#base) versions.push(this.#base.version);
    return versions.includes(undefined) ? undefined : versions.join(" ");
  }

  /** @internal */
  get needsBase(): boolean {
    return this.#instance.call(() => this.#core.needsBase());
  }

  /** @internal */
  async attach(base: Model, ownsBase: boolean): Promise<void> {
    const delta = this.#core;
    if (!this.needsBase || delta instanceof PlainModel) {
      throw new InvalidInputError("`base` is for deltas (Z4DM), and this file is not a delta.");
    }
    const { checkBase } = await loadCoreFiles();
    base.#closing.signal.throwIfAborted();
    base.#instance.check();
    checkBase(this.#instance as CoreInstance, delta, base.#opened, base.kind);
    this.#base = base;
    this.#ownsBase = ownsBase;
  }

  /**
   * Reads one tensor: fetches its stored bytes and nothing else, and decodes them. In a delta, the base's tensor is read
   * at the same time if it is needed.
   */
  async tensor(name: string, options: TensorOptions = {}): Promise<Tensor> {
    const info = this.tensors.get(name) ?? (await this.#missing(name));
    const meter = new ProgressMeter(options.onProgress, { stage: "tensor", tensor: name });
    if (options.rows) return this.#readRows(info, options.rows, options, meter);
    meter.expect(this.#costBytes(info));
    const into = options.into && outputView(info, options.into);
    return createTensor(info, typedArray(info.dtype, name, await this.#raw(info, options.signal, meter, into)));
  }

  /**
   * Returns where the bytes of a packed tensor go: each part of its elements with its coding and size. They come from
   * the tensor's block table, which is small and often already known. `undefined` for tensors without a table: short
   * ones, those with mostly zeros or few values, deltas, files of z4ai, and uncompressed ones.
   */
  async planes(name: string, { signal }: Pick<TensorOptions, "signal"> = {}): Promise<readonly StoredPlane[] | undefined> {
    if (!this.tensors.has(name)) await this.#missing(name);
    return this.#whileOpen(signal, async (signal) => {
      const core = this.#core;
      if (core instanceof PlainModel || this.tensors.get(name)!.base) return undefined;
      return (await this.#rowPlanner(core)).planes(this.#indices.get(name)!, { signal });
    });
  }

  /**
   * Returns the statistics of tensors that were stored when the file was packed: of all tensors without reading any
   * bytes, or of one tensor with those of its bands of rows. `undefined` for models and tensors that have none: other
   * formats than ZSTN, files packed without them, tensors without elements or of the dtypes `F4`, `F6_E2M3`, `F6_E3M2`
   * and `C64`, weights that are stored in parts, and shards with tensors that the index assigns to another one.
   */
  statistics(): Promise<ReadonlyMap<string, TensorStatistics> | undefined>;
  statistics(name: string, options?: StatisticsOptions): Promise<TensorStatistics | undefined>;
  async statistics(name?: string, { signal }: StatisticsOptions = {}): Promise<ReadonlyMap<string, TensorStatistics> | TensorStatistics | undefined> {
    if (name !== undefined && !this.tensors.has(name)) await this.#missing(name);
    if (this.kind !== "zstn") return undefined;
    return this.#whileOpen(signal, async (signal) => {
      const { StoredStatistics } = await import("./statistics.js");
      signal.throwIfAborted();
      // Models of this kind are read by the core.
      this.#statistics ??= new StoredStatistics(this.#instance as CoreInstance, this.#core as CoreModel, this.#sources, this.tensors);
      return name === undefined ? this.#statistics.all : this.#statistics.withBands(name, { signal });
    });
  }

  /** Returns what `model.tensor` would fetch. Reads at most the tensor's small block table, or the head of its difference. */
  async plan(name: string, { rows, signal }: PlanOptions = {}): Promise<ReadPlan> {
    const info = this.tensors.get(name) ?? (await this.#missing(name));
    if (rows) {
      rowsInfo(info, rows);
      const core = this.#core;
      const parts = await this.#whileOpen(signal, async (signal) =>
        core instanceof PlainModel ? plainRows(info, rows) : (await this.#rowPlanner(core)).parts(this.#indices.get(name)!, rows, { signal }),
      );
      if (parts) return { whole: false, bytes: totalBytes(parts), parts };
    }
    return { whole: true, bytes: info.storedLength, parts: info.parts };
  }

  /**
   * Yields tensors in the order of `names`, by default all in the order of `tensors`. The next ones are read while the
   * caller works, so that adjacent ones share a request. Leaving the loop, an error or an abort stops all reads.
   */
  async *stream(names: Iterable<string> = this.tensors.keys(), options: StreamOptions = {}): AsyncGenerator<Tensor, void, undefined> {
    const { readAheadBytes = DEFAULT_READ_AHEAD_BYTES, signal } = options;
    checkAhead(readAheadBytes);
    const tensors: Ahead[] = [];
    for (const name of names) {
      const info = this.tensors.get(name) ?? (await this.#missing(name));
      checkSize(info);
      tensors.push({ info, heldBytes: this.#costBytes(info) + info.byteLength });
    }
    const meter = new ProgressMeter(options.onProgress, { stage: "stream" });
    meter.expect(tensors.reduce((sum, { info }) => sum + this.#costBytes(info), 0));
    yield* inOrder(tensors, readAheadBytes, signal, async (info, signal) => createTensor(info, typedArray(info.dtype, info.name, await this.#raw(info, signal, meter))));
  }

  /**
   * Returns the model as a safetensors file that is read like a `Blob`, in slices. Reading a slice fetches and decodes
   * the tensors it overlaps. For a single plain or packed file, or a delta, it is the original file, byte for byte. For
   * others (several files, formats without a safetensors header, weights in parts) the header is generated: metadata
   * sorted, then the tensors in the order of `tensors`. `isOriginal` says which. It cannot be read after `close`.
   */
  asSafetensorsBlob(options: SafetensorsBlobOptions = {}): SafetensorsBlob {
    const closing = this.#closing.signal;
    closing.throwIfAborted();
    const decode = (info: TensorInfo, signal: AbortSignal) => this.#raw(info, signal, new ProgressMeter(undefined, { stage: "tensor" }));
    const unpacked = (this.#unpacked ??= this.#instance.call(() => this.#core.unpacked()));
    return modelBlob({ kind: this.kind, tensors: this.tensors, files: this.#sources, instance: this.#instance, unpacked, decode }, options, closing);
  }

  /** Frees the memory of the model and stops all reads. Calling it again does nothing. */
  close(): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new ModelClosedError());
    this.#instance.free(this.#unpacked);
    this.#instance.free(this.#core);
    this.#decoding?.ownPool?.close();
    if (this.#ownsBase) this.#base?.close();
  }

  /** Closes the model at the end of a block: `using model = await open(…)`. Present where the runtime has `Symbol.dispose`. */
  declare readonly [Symbol.dispose]: () => void;

  static {
    // Declared as a method, it would be called "undefined" in a runtime without the symbol.
    if (Symbol.dispose) Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.close });
  }

  async #missing(name: string): Promise<never> {
    throw await missingTensor(name, this.tensors, this.unreadable);
  }

  /** Returns the number of bytes to fetch for a tensor, including those of the base. */
  #costBytes(info: TensorInfo): number {
    const inBase = info.base && this.#base?.tensors.get(info.name);
    return info.storedLength + (inBase ? this.#base!.#costBytes(inBase) : 0);
  }

  #readRows(whole: TensorInfo, range: RowRange, options: TensorOptions, meter: ProgressMeter): Promise<Tensor> {
    const info = rowsInfo(whole, range);
    const into = options.into && outputView(info, options.into);
    return this.#whileOpen(options.signal, async (signal) => {
      checkRowsSize(info);
      const core = this.#core;
      const readWhole = () => {
        meter.expect(this.#costBytes(whole));
        return this.#raw(whole, signal, meter);
      };
      const context = { signal, meter, base: this.#base, readWhole };
      const raw = await (core instanceof PlainModel ? readPlainRows(core, whole, range, context) : (await this.#rowPlanner(core)).read(this.#indices.get(info.name)!, info.name, range, context));
      into?.set(raw);
      return createTensor(info, typedArray(info.dtype, info.name, into ?? raw));
    });
  }

  /** Returns what reads rows of a packed model. */
  async #rowPlanner(core: CoreModel): Promise<RowPlanner> {
    const { RowPlanner } = await loadCoreFiles();
    return (this.#rows ??= new RowPlanner(this.#instance, core, this.#sources));
  }

  /** Runs `work` with a signal that also aborts when the model is closed. */
  async #whileOpen<T>(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const closing = this.#closing.signal;
    closing.throwIfAborted();
    this.#instance.check();
    return abortSiblingsOnFailure([closing, signal], work);
  }

  async #raw(info: TensorInfo, signal: AbortSignal | undefined, meter: ProgressMeter, into?: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
    return this.#whileOpen(signal, async (signal) => {
      checkSize(info);
      const core = this.#core;
      if (core instanceof PlainModel) return core.read(info, { signal, onBytes: meter.arrived }, into);
      const { decoder } = this.#decoding!;
      const target = { instance: this.#instance as CoreInstance, model: core, index: this.#indices.get(info.name)!, info };
      decoder.warmUp(target);
      const base = info.base && this.#base;
      const readOwn = readRanges(this.#sources, info.parts, { signal, onBytes: meter.arrived });
      const [parts, reference] = base ? await Promise.all([readOwn, base.#raw(base.tensors.get(info.name)!, signal, meter)]) : [await readOwn];
      // The core of a closed model has been freed.
      signal.throwIfAborted();
      const raw = await decoder.decode({ ...target, parts, reference, into, signal });
      if (raw.byteLength !== info.byteLength) {
        throw new FormatError(`The tensor ${info.name} should have ${info.byteLength} bytes, decoding gave ${raw.byteLength}.`, { tensor: info.name });
      }
      return raw;
    });
  }
}
