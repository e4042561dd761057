/// <reference lib="esnext.disposable" preserve="true" />
/** An open model: its tensors and the methods that read them. */

import type { CoreModel, CoreUnpacked, ModelInstance } from "./core.js";
import { loadCoreFiles } from "./core-files-loader.js";
import type { Decoding } from "./decode/worker-pool.js";
import { typedArray, type Dtype } from "./dtype.js";
import { ModelClosedError, type ZstnError } from "./errors.js";
import type { GpuReadOptions, GpuTensor } from "./gpu/target.js";
import { checkOptions } from "./known-options.js";
import { ProgressMeter } from "./progress.js";
import type { Description } from "./description.js";
import { partOf, type ByteSpan, type ReadPlan } from "./rows.js";
import { abortSiblingsOnFailure } from "./abort-siblings.js";
import type { StatisticsOptions, StoredStatistics, TensorStatistics } from "./statistics.js";
import type { StreamOptions } from "./stream.js";
import { PlainModel } from "./safetensors/plain-model.js";
import type { Source } from "./source/source.js";
import type { Stats, Traffic } from "./source/traffic.js";
import { checkSize } from "./limits.js";
import type { ModelKind } from "./model-kind.js";
import { countElements, createTensor, type StoredPlane, type Tensor, type TensorInfo } from "./tensor.js";
import type { OpenedModel } from "./opened-model.js";
import { ONLY_SIGNAL, PLAN_OPTIONS, TENSOR_OPTIONS, type PlanOptions, type TensorOptions } from "./tensor-options.js";
import type { SafetensorsBlob } from "./safetensors-view/blob.js";
import { modelBlob, type SafetensorsBlobOptions } from "./safetensors-view/model-file.js";

/** An open model in one or more files, created by `open`. */
export class Model {
  /**
   * The format of the files: `"zstn"`, `"gguf"`, …; `"z4dm"` for a delta; `"compressed-tensors"` with such a `config.json`.
   * It is the original's for a packed file that does not list all tensors, and for a delta of other files than safetensors.
   */
  readonly kind: ModelKind;
  /** Total length of all files, in bytes. */
  readonly size: number;
  /**
   * Total length of the safetensors files that the model was packed from, in bytes. Equal to `size` for plain
   * safetensors. For models of other formats it is the total length of all decoded tensors.
   */
  readonly originalSize: number;
  /** The number of files. */
  readonly fileCount: number;
  /** The metadata of the files as text: `__metadata__` of safetensors headers, or the metadata of another format. May be empty. */
  readonly metadata: Readonly<Record<string, string>>;
  /** All tensors by name, file by file, in the order of their data (zTensor: in the order of the file's own list). */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** The number of elements of each dtype, in all `tensors`. Their sum is the number of parameters. */
  readonly parameterCounts: ReadonlyMap<Dtype, number>;
  /** Weights that cannot be read, by name, with the error: their parts or their description are damaged or unknown. */
  readonly unreadable: ReadonlyMap<string, ZstnError>;
  /** Live counters of the requests and bytes that this model has used. Reads of the base count in `base.stats`. */
  readonly stats: Stats;
  readonly #opened: OpenedModel;
  readonly #sources: readonly Source[];
  readonly #instance: ModelInstance;
  readonly #core: CoreModel | PlainModel;
  readonly #closing = new AbortController();
  readonly #decoding: Decoding | undefined;
  #unpacked: CoreUnpacked | undefined;
  #statistics: StoredStatistics | undefined;
  #base: Model | undefined;
  #ownsBase = false;

  /** @internal */
  constructor(opened: OpenedModel, description: Description, traffic: Traffic, decoding: Decoding | undefined) {
    const { files } = (this.#opened = opened);
    this.#sources = files.map(({ source }) => source);
    this.#instance = opened.instance;
    this.#core = opened.model;
    this.#decoding = decoding;
    this.size = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    this.fileCount = files.length;
    this.stats = traffic;
    this.kind = description.kind;
    this.originalSize = description.originalSize;
    this.metadata = Object.freeze(description.metadata);
    this.tensors = new Map(description.tensors.map((info) => [info.name, Object.freeze(info)]));
    this.parameterCounts = countElements(description.tensors);
    this.unreadable = new Map(description.refused.map((error) => [("tensor" in error && error.tensor) || "", error] as [string, ZstnError]));
  }

  /** The model that this delta was opened with; `undefined` for other files, and for a delta with the format of its original. */
  get base(): Model | undefined {
    return this.#base;
  }

  /** @internal Identifies this version of all files; `undefined` if a source has no version identifier. */
  get version(): string | undefined {
    const versions = this.#sources.map((source) => source.pinned?.version);
    if (this.#base) versions.push(this.#base.version);
    return versions.includes(undefined) ? undefined : versions.join(" ");
  }

  /** @internal */
  get needsBase(): boolean {
    return this.#instance.call(() => this.#core.needsBase());
  }

  /**
   * @internal Attaches the bases of this delta, which itself may be the base of another one. Closing it closes those in
   * `owned`. Returns the model to read: this delta, or the file of another format than safetensors that it restores.
   */
  async attach(bases: readonly Model[], owned: readonly Model[], isBase = false): Promise<Model> {
    const opened = bases.map((base) => ({ model: base, opened: base.#opened, closed: base.#closing.signal }));
    const result = await (await loadCoreFiles()).attached(this, this.#opened, this.#decoding, opened, owned, isBase);
    if (result instanceof Model) return result;
    [this.#base, this.#ownsBase] = result;
    return this;
  }

  /**
   * Reads one tensor: fetches its stored bytes and nothing else, and decodes them. In a delta, the base's tensor is
   * read concurrently if it is needed. Rejects with a `TensorNotFoundError` for an unknown name, with an
   * `InvalidInputError` for a part that it does not have, and with a `LimitError` for a tensor too long to be read at once.
   */
  async tensor(name: string, options: TensorOptions = {}): Promise<Tensor> {
    checkOptions("tensor()", options, TENSOR_OPTIONS);
    const whole = this.tensors.get(name) ?? (await this.#missing(name));
    const meter = new ProgressMeter(options.onProgress, { stage: "tensor", tensor: name });
    const part = await partOf(whole, options.rows, options.select);
    const info = part?.info ?? whole;
    const into = options.into && (await import("./decode/output-buffer.js")).outputView(info, options.into);
    if (part) checkSize(info);
    const core = this.#core;
    const bandBytes = (position: number, signal: AbortSignal) => (core instanceof PlainModel ? core.bandBytes(whole, position, { signal }) : this.#opened.planner!.bandBytes(this.#indexOf(name), position, { signal }));
    const readPart = (signal: AbortSignal) => part!.read({ bandBytes: (position) => bandBytes(position, signal), read: (span) => this.readSpan(whole, span, signal, meter) }, into);
    const raw = await (part ? this.#whileOpen(options.signal, readPart) : this.#raw(whole, options.signal, meter, into));
    if (into !== raw) into?.set(raw);
    return createTensor(info, typedArray(info.dtype, name, into ?? raw));
  }

  /**
   * Reads one tensor into a buffer of a GPU (WebGPU), which decodes packed tensors from their stored bytes. The CPU decodes
   * a tensor that shaders do not support, `rows` of a tensor, and every tensor with `verify: "full"`. The bytes up to the next
   * multiple of 4 become zeros. Rejects with an `InvalidInputError` for a buffer that is unsuitable, and with a `GpuError` if the GPU refuses a command.
   */
  async readToGpu(name: string, options: GpuReadOptions): Promise<GpuTensor> {
    const { readToGpu } = await import("./gpu/read-to-gpu.js");
    const info = this.tensors.get(name) ?? (await this.#missing(name));
    return readToGpu(info, options, this, (...rest) => this.#raw(info, options.signal, ...rest));
  }

  /**
   * Returns how the stored bytes of a packed tensor are distributed: the coding and the size of each plane of its
   * elements. Reads at most the tensor's small block table. Resolves to `undefined` for tensors without a table: short
   * ones, those with mostly zeros or few values, deltas, files of z4ai, and uncompressed tensors.
   */
  async planes(name: string, options: Pick<TensorOptions, "signal"> = {}): Promise<readonly StoredPlane[] | undefined> {
    checkOptions("planes()", options, ONLY_SIGNAL);
    const info = this.tensors.get(name) ?? (await this.#missing(name));
    return this.#whileOpen(options.signal, async (signal) => {
      const core = this.#core;
      if (core instanceof PlainModel) return core.planes?.(info, { signal });
      return info.base ? undefined : this.#opened.planner!.planes(this.#indexOf(name), { signal });
    });
  }

  /**
   * Returns statistics that were stored when the file was packed. Without `name`, they cover all tensors, and no bytes
   * are read; with `name`, they cover one tensor and its bands of rows. Resolves to `undefined` for models and tensors
   * without statistics: formats other than ZSTN, files packed from them or without statistics, tensors without elements,
   * the dtypes `F4`, `F6_E2M3`, `F6_E3M2` and `C64`, weights that are stored in parts, and shards with tensors that the
   * index assigns to another shard.
   */
  statistics(): Promise<ReadonlyMap<string, TensorStatistics> | undefined>;
  statistics(name: string, options?: StatisticsOptions): Promise<TensorStatistics | undefined>;
  async statistics(name?: string, options: StatisticsOptions = {}): Promise<ReadonlyMap<string, TensorStatistics> | TensorStatistics | undefined> {
    checkOptions("statistics()", options, ONLY_SIGNAL);
    if (name !== undefined && !this.tensors.has(name)) await this.#missing(name);
    if (this.kind !== "zstn") return undefined;
    return this.#whileOpen(options.signal, async (signal) => {
      const { StoredStatistics } = await import("./statistics.js");
      signal.throwIfAborted();
      // Every model of a packed file has this method, whether or not the core reads it.
      this.#statistics ??= new StoredStatistics(this.#instance, this.#core as Pick<CoreModel, "statistics">, this.#sources, this.tensors);
      return name === undefined ? this.#statistics.all : this.#statistics.withBands(name, { signal });
    });
  }

  /**
   * Returns the bytes that opening this model has read, with the versions (`ETag`, `Last-Modified`) and lengths of its
   * files, for the option `index` of `open`: a later visit or another worker then needs no request to list the tensors.
   * It contains no addresses and no secrets. Rejects with an `UnsupportedError` for files that were packed from other
   * formats than safetensors, models in several files without an index of shards, and compressed-tensors.
   */
  async index(): Promise<Uint8Array<ArrayBuffer>> {
    const { writeIndex } = await import("./model-index.js");
    return this.#whileOpen(undefined, () => writeIndex(this.#opened, this.kind));
  }

  /**
   * Returns the byte ranges that `model.tensor` would fetch. Reads at most the tensor's small block table, or in a
   * delta the head of its frame. If a packed file has the format of its original, the ranges are in the original.
   */
  async plan(name: string, options: PlanOptions = {}): Promise<ReadPlan> {
    checkOptions("plan()", options, PLAN_OPTIONS);
    const info = this.tensors.get(name) ?? (await this.#missing(name));
    const { planOf } = await loadCoreFiles();
    return planOf(info, this.tensors, options, this.#opened, (work) => this.#whileOpen(options.signal, work));
  }

  /**
   * Yields tensors in the order of `names`, by default all tensors. The next tensors are read while the caller works on
   * one, and adjacent tensors share a request. Leaving the loop, an error or an abort stops all reads.
   */
  async *stream(names: Iterable<string> = this.tensors.keys(), options: StreamOptions = {}): AsyncGenerator<Tensor, void, undefined> {
    const { streamOf } = await import("./stream.js");
    yield* streamOf(names, options, {
      info: async (name) => this.tensors.get(name) ?? this.#missing(name),
      costBytes: (info) => this.#costBytes(info),
      read: async (info, signal, meter) => createTensor(info, typedArray(info.dtype, info.name, await this.#raw(info, signal, meter))),
    });
  }

  /**
   * Returns the model as a safetensors file that is read like a `Blob`, in slices. Reading a slice fetches and decodes
   * the tensors that it overlaps. For a single plain or packed file, or a delta, the result is the original file, byte
   * for byte. For other models (several files, formats without a safetensors header, weights in parts) the header is
   * generated: metadata sorted by name, then the tensors in the order of `tensors`. `isOriginal` tells which. After `close`, it cannot be read.
   */
  asSafetensorsBlob(options: SafetensorsBlobOptions = {}): SafetensorsBlob {
    const closing = this.#closing.signal;
    closing.throwIfAborted();
    const decode = (info: TensorInfo, signal: AbortSignal) => this.#raw(info, signal, new ProgressMeter(undefined, { stage: "tensor" }));
    this.#unpacked ??= this.#instance.call(() => this.#core.unpacked());
    return modelBlob({ kind: this.kind, isPlain: (index) => this.#core.isPlain(index), tensors: this.tensors, files: this.#sources, instance: this.#instance, unpacked: this.#unpacked, decode }, options, closing);
  }

  /** Frees the memory of the model and aborts all reads. Calling it again does nothing. */
  close(): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new ModelClosedError());
    this.#instance.free(this.#unpacked);
    this.#instance.free(this.#core);
    this.#decoding?.ownPool?.close();
    if (this.#ownsBase) this.#base?.close();
  }

  /** Closes the model at the end of a block: `using model = await open(…)`. Present if the runtime has `Symbol.dispose`. */
  declare readonly [Symbol.dispose]: () => void;

  static {
    // In a runtime without the symbol, a method declaration would create a method named "undefined".
    if (Symbol.dispose) Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.close });
  }

  /** Returns the index of a tensor in the core's model, which plain models do not have. */
  #indexOf(name: string): number {
    return this.#opened.planner!.indexOf(name, this.tensors);
  }

  async #missing(name: string): Promise<never> {
    throw await (await loadCoreFiles()).missingTensor(name, this.tensors, this.unreadable);
  }

  /** Returns the base's tensor that a tensor depends on. */
  #inBase(info: TensorInfo): TensorInfo | undefined {
    return info.base && this.#opened.planner!.inBase(this.#indexOf(info.name), this.#base);
  }

  /** Returns the number of bytes to fetch for a tensor, including the bytes of the base. */
  #costBytes(info: TensorInfo): number {
    const inBase = this.#inBase(info);
    return info.storedLength + (inBase ? this.#base!.#costBytes(inBase) : 0);
  }

  /** @internal Reads and decodes some bytes of a tensor. */
  readSpan(whole: TensorInfo, span: ByteSpan, signal: AbortSignal | undefined, meter: ProgressMeter): Promise<Uint8Array<ArrayBuffer>> {
    return this.#whileOpen(signal, async (signal) => {
      const core = this.#core;
      const context = { signal, meter, base: this.#base, readWhole: () => this.#raw(whole, signal, meter) };
      return core instanceof PlainModel ? core.readSpan(whole, span, context) : this.#opened.planner!.read(this.#indexOf(whole.name), whole, span, context);
    });
  }

  /** Runs `work` with a signal that aborts with `signal` or when the model is closed. */
  async #whileOpen<T>(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const closing = this.#closing.signal;
    closing.throwIfAborted();
    this.#instance.check();
    return abortSiblingsOnFailure([closing, signal], work);
  }

  async #raw(info: TensorInfo, signal: AbortSignal | undefined, meter: ProgressMeter, into?: Uint8Array<ArrayBuffer>, wrap = (decoder: Decoding["decoder"]) => decoder): Promise<Uint8Array<ArrayBuffer>> {
    return this.#whileOpen(signal, async (signal) => {
      checkSize(info);
      meter.expect(this.#costBytes(info));
      const core = this.#core;
      if (core instanceof PlainModel) return core.read(info, { signal, onBytes: meter.arrived }, into, wrap);
      const target = { instance: this.#instance, model: core, index: this.#indexOf(info.name), info, sources: this.#sources };
      const inBase = this.#inBase(info);
      const readBase = inBase && (() => this.#base!.#raw(inBase, signal, meter));
      return this.#opened.readTensor!(target, { files: this.#opened.files, decoder: wrap(this.#decoding!.decoder), readBase, signal, meter, into });
    });
  }
}
