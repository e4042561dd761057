/// <reference lib="esnext.disposable" preserve="true" />
/** An open model: its tensors, and reading them. */

import type { CoreInstance, CoreModel, CoreUnpacked } from "./core.js";
import type { Decoding } from "./decode/pool.js";
import { outputView } from "./decode/output-buffer.js";
import { typedArray } from "./dtype.js";
import { FormatError, InvalidInputError, ModelClosedError, TensorNotFoundError } from "./errors.js";
import type { ZstnError } from "./errors.js";
import { totalBytes, readRanges, parseRanges } from "./byte-ranges.js";
import { ProgressMeter } from "./progress.js";
import { toZstnError } from "./core-errors.js";
import { RowPlanner, rowsInfo } from "./rows.js";
import type { ReadPlan, RowRange } from "./rows.js";
import { abortSiblingsOnFailure } from "./abort-siblings.js";
import { DEFAULT_READ_AHEAD_BYTES, checkAhead, inOrder } from "./stream.js";
import type { Ahead, StreamOptions } from "./stream.js";
import { withSignal } from "./source/with-signal.js";
import type { Source } from "./source/source.js";
import type { Stats, Traffic } from "./source/traffic.js";
import { checkRowsSize, checkSize } from "./limits.js";
import { createTensor } from "./tensor.js";
import type { ModelKind } from "./model-kind.js";
import type { StoredPlane, Tensor, TensorInfo } from "./tensor.js";
import type { PlanOptions, TensorOptions } from "./tensor-options.js";
import { SafetensorsBlob } from "./safetensors-view/blob.js";
import { DEFAULT_DECODED_BYTES, modelFile } from "./safetensors-view/model-file.js";
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

  readonly #sources: readonly Source[];
  readonly #instance: CoreInstance;
  readonly #core: CoreModel;
  readonly #indices = new Map<string, number>();
  readonly #closing = new AbortController();
  readonly #decoding: Decoding;
  readonly #rows: RowPlanner;
  #unpacked: CoreUnpacked | undefined;
  #base: Model | undefined;
  #ownsBase = false;

  /** @internal */
  constructor(sources: readonly Source[], sizeBytes: number, instance: CoreInstance, core: CoreModel, traffic: Traffic, decoding: Decoding) {
    this.#sources = sources;
    this.#instance = instance;
    this.#core = core;
    this.#decoding = decoding;
    this.#rows = new RowPlanner(instance, core, sources);
    this.size = sizeBytes;
    this.fileCount = sources.length;
    this.stats = traffic;
    this.kind = instance.call(() => core.kind());
    this.originalSize = instance.call(() => core.originalBytes());
    this.metadata = Object.freeze(instance.call(() => core.metadata()));
    const tensors = new Map<string, TensorInfo>();
    for (const [index, info] of instance.call(() => core.tensors()).entries()) {
      tensors.set(info.name, Object.freeze(info));
      this.#indices.set(info.name, index);
    }
    this.tensors = tensors;
    const refusals = instance.call(() => core.refused()).map((rejection) => toZstnError(rejection));
    this.unreadable = new Map(refusals.map((error) => [("tensor" in error && error.tensor) || "", error] as [string, ZstnError]));
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
  attach(base: Model, ownsBase: boolean): void {
    if (!this.needsBase) {
      throw new InvalidInputError("`base` is for deltas (Z4DM), and this file is not a delta.");
    }
    base.#closing.signal.throwIfAborted();
    base.#instance.check();
    if (base.#instance !== this.#instance) {
      throw new InvalidInputError(`A base is a safetensors file, plain or packed, opened with { config: false }; this one was opened as ${base.kind}.`);
    }
    this.#instance.call(() => this.#core.checkBase(base.#core));
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
    return this.#whileOpen(signal, (signal) => this.#rows.planes(this.#indices.get(name)!, { signal }));
  }

  /** Returns what `model.tensor` would fetch. Reads at most the tensor's small block table. */
  async plan(name: string, { rows, signal }: PlanOptions = {}): Promise<ReadPlan> {
    const info = this.tensors.get(name) ?? (await this.#missing(name));
    if (rows) {
      rowsInfo(info, rows);
      const plan = await this.#whileOpen(signal, (signal) => this.#rows.plan(this.#indices.get(name)!, rows, { signal }));
      try {
        const ranges = this.#instance.call(() => (plan.isWhole() ? undefined : plan.ranges()));
        if (ranges) {
          const parts = parseRanges(ranges);
          return { whole: false, bytes: totalBytes(parts), parts };
        }
      } finally {
        this.#instance.free(plan);
      }
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
    const { cacheBytes = DEFAULT_DECODED_BYTES } = options;
    if (!(cacheBytes >= 0)) throw new InvalidInputError(`\`cacheBytes\` is a number of bytes, not ${String(cacheBytes)}.`);
    const decode = (info: TensorInfo, signal: AbortSignal) => this.#raw(info, signal, new ProgressMeter(undefined, { stage: "tensor" }));
    const unpacked = (this.#unpacked ??= this.#instance.call(() => this.#core.unpacked()));
    const { kind, tensors } = this;
    const instance = this.#instance;
    const file = withSignal(modelFile({ kind, tensors, files: this.#sources, instance, unpacked, decode }, cacheBytes), closing);
    return new SafetensorsBlob(file, 0, file.size() as number, "application/octet-stream", instance.call(() => unpacked.isOriginal()));
  }

  /** Frees the memory of the model and stops all reads. Calling it again does nothing. */
  close(): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new ModelClosedError());
    this.#instance.free(this.#unpacked);
    this.#instance.free(this.#core);
    this.#decoding.ownPool?.close();
    if (this.#ownsBase) this.#base?.close();
  }

  /** Closes the model at the end of a block: `using model = await open(…)`. Present where the runtime has `Symbol.dispose`. */
  declare readonly [Symbol.dispose]: () => void;

  static {
    // Declared as a method, it would be called "undefined" in a runtime without the symbol.
    if (Symbol.dispose) Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.close });
  }

  /** Rejects with the reason why there is no tensor of that name. Suggestions are loaded when they are needed. */
  async #missing(name: string): Promise<never> {
    const refusal = this.unreadable.get(name);
    if (refusal) throw refusal;
    const { suggestNames } = await import("./suggest.js").catch(() => ({ suggestNames: () => [] }));
    const matches = suggestNames(name, this.tensors.keys());
    const hint = matches.length > 0 ? ` Did you mean ${matches.join(" or ")}?` : "";
    throw new TensorNotFoundError(name, matches, `The model has no tensor named ${JSON.stringify(name)}.${hint}`);
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
      const rows = await this.#rows.plan(this.#indices.get(info.name)!, range, { signal });
      try {
        let raw: Uint8Array<ArrayBuffer>;
        if (this.#instance.call(() => rows.isWhole())) {
          meter.expect(this.#costBytes(whole));
          raw = this.#rows.rowsOfWhole(rows, await this.#raw(whole, signal, meter));
        } else {
          checkRowsSize(info);
          meter.expect(totalBytes(parseRanges(this.#instance.call(() => rows.ranges()))));
          raw = await this.#rows.read(rows, { signal, onBytes: meter.arrived });
        }
        into?.set(raw);
        return createTensor(info, typedArray(info.dtype, info.name, into ?? raw));
      } finally {
        this.#instance.free(rows);
      }
    });
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
      const { decoder } = this.#decoding;
      const target = { instance: this.#instance, model: this.#core, index: this.#indices.get(info.name)!, info };
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
