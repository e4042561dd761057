/// <reference lib="esnext.disposable" preserve="true" />
/** An open model: the list of its tensors, and reading one of them. */

import type { CoreModel, CoreUnpacked } from "./core.js";
import type { Decoding } from "./decode/decoder.js";
import { room } from "./decode/room.js";
import { typedArray } from "./dtype.js";
import { FormatError, InvalidInputError, ModelClosedError, TensorNotFoundError } from "./errors.js";
import type { ZstnError } from "./errors.js";
import { partsBytes, readParts, storedParts } from "./parts.js";
import { ProgressMeter } from "./progress.js";
import { asError, guarded } from "./rejection.js";
import { RowPlanner, rowsInfo, rowsOfWhole } from "./rows.js";
import type { ReadPlan, RowRange } from "./rows.js";
import { sideBySide } from "./side-by-side.js";
import { DEFAULT_AHEAD_BYTES, checkAhead, inOrder } from "./stream.js";
import type { StreamOptions } from "./stream.js";
import { ending } from "./source/ending.js";
import type { Source } from "./source/source.js";
import type { Stats, Traffic } from "./source/traffic.js";
import { checkRowsSize, checkSize } from "./size.js";
import { closeMatches } from "./suggest.js";
import { Tensor } from "./tensor.js";
import type { StoredPlane, TensorInfo } from "./tensor.js";
import type { PlanOptions, TensorOptions } from "./tensor-options.js";
import { SafetensorsBlob } from "./virtual/blob.js";
import { DEFAULT_DECODED_BYTES, modelFile } from "./virtual/model-file.js";
import type { SafetensorsBlobOptions } from "./virtual/model-file.js";

/** An open model, in one file or several. Made by `open`. */
export class Model {
  /**
   * Format of its files: `"zstn"`, `"safetensors"`, `"ztensor"`, `"gauss"`, or `"z4dm"` for a delta;
   * `"compressed-tensors"` if weights are stored in parts that `config.json` explains.
   */
  readonly kind: string;
  /** Length of all its files together, in bytes. */
  readonly size: number;
  /**
   * Length of the safetensors files it was packed from, in bytes; equal to `size` when it is stored so. Where there
   * were none (zTensor, Gauss, compressed-tensors), the length of all tensors together.
   */
  readonly originalSize: number;
  /** Number of its files. */
  readonly fileCount: number;
  /** The `__metadata__` of the safetensors headers, or the texts among a zTensor file's attributes; empty when there are none. */
  readonly metadata: Readonly<Record<string, string>>;
  /** All tensors by name, file by file in the order of their data (in zTensor files, of the file's list). */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** Weights that cannot be read because their parts or their description are damaged or unknown, and why. */
  readonly unreadable: ReadonlyMap<string, ZstnError>;
  /** What reading from this file has cost so far; live. Reading from the base counts in `base.stats`. */
  readonly stats: Stats;

  readonly #sources: readonly Source[];
  readonly #core: CoreModel;
  readonly #indices = new Map<string, number>();
  readonly #closing = new AbortController();
  readonly #decoding: Decoding;
  readonly #rows: RowPlanner;
  #unpacked: CoreUnpacked | undefined;
  #base: Model | undefined;
  #ownsBase = false;

  /** @internal */
  constructor(sources: readonly Source[], sizeBytes: number, core: CoreModel, traffic: Traffic, decoding: Decoding) {
    this.#sources = sources;
    this.#core = core;
    this.#decoding = decoding;
    this.#rows = new RowPlanner(core, sources);
    this.size = sizeBytes;
    this.fileCount = sources.length;
    this.stats = traffic;
    this.kind = guarded(() => core.kind());
    this.originalSize = guarded(() => core.originalBytes());
    this.metadata = Object.freeze(guarded(() => core.metadata()));
    const tensors = new Map<string, TensorInfo>();
    for (const [index, info] of guarded(() => core.tensors()).entries()) {
      tensors.set(info.name, Object.freeze(info));
      this.#indices.set(info.name, index);
    }
    this.tensors = tensors;
    const refusals = guarded(() => core.refused()).map((rejection) => asError(rejection));
    this.unreadable = new Map(refusals.map((error) => [("tensor" in error && error.tensor) || "", error] as [string, ZstnError]));
  }

  /** The model that this delta was opened with; `undefined` for other files. */
  get base(): Model | undefined {
    return this.#base;
  }

  /** @internal What tells the files of this model from all others, if there is such a thing. */
  get version(): string | undefined {
    const versions = this.#sources.map((source) => source.version);
    if (this.#base) versions.push(this.#base.version);
    return versions.includes(undefined) ? undefined : versions.join(" ");
  }

  /** @internal */
  get needsBase(): boolean {
    return guarded(() => this.#core.needsBase());
  }

  /** @internal */
  attach(base: Model, ownsBase: boolean): void {
    if (!this.needsBase) {
      throw new InvalidInputError("`base` is for deltas (Z4DM); this file is complete and has none.");
    }
    base.#closing.signal.throwIfAborted();
    if (base.#core.constructor !== this.#core.constructor) {
      throw new InvalidInputError(`A base is a safetensors file, plain or packed, opened with { config: false }; this one was opened as ${base.kind}.`);
    }
    guarded(() => this.#core.checkBase(base.#core));
    this.#base = base;
    this.#ownsBase = ownsBase;
  }

  /**
   * Reads one tensor: fetches its stored bytes, nothing else, and decodes them. In a delta what is needed of the
   * base comes at the same time.
   */
  async tensor(name: string, options: TensorOptions = {}): Promise<Tensor> {
    const info = this.#find(name);
    const meter = new ProgressMeter(options.onProgress, { stage: "tensor", tensor: name });
    if (options.rows) return this.#readRows(info, options.rows, options, meter);
    meter.expect(this.#costBytes(info));
    const into = options.into && room(info, options.into);
    return new Tensor(info, typedArray(info.dtype, name, await this.#raw(info, options.signal, meter, into)));
  }

  /**
   * Where the bytes of a packed tensor go: each part of its elements, how it is coded and what it takes. Read from the
   * tensor's block table, which is small and often here already; `undefined` for tensors without one: short ones, mostly
   * zeros or few values, deltas, files of z4ai and what is not packed.
   */
  async planes(name: string, { signal }: Pick<TensorOptions, "signal"> = {}): Promise<readonly StoredPlane[] | undefined> {
    this.#find(name);
    return this.#rows.planes(this.#indices.get(name)!, { signal: this.#untilClosed(signal) });
  }

  /** What `model.tensor` would fetch. Reads nothing, or the small table that says where the blocks of the tensor are. */
  async plan(name: string, { rows, signal }: PlanOptions = {}): Promise<ReadPlan> {
    const info = this.#find(name);
    if (rows) {
      rowsInfo(info, rows);
      const plan = await this.#rows.plan(this.#indices.get(name)!, rows, { signal: this.#untilClosed(signal) });
      try {
        if (!plan.isWhole()) {
          const parts = storedParts(plan.ranges());
          return { whole: false, bytes: partsBytes(parts), parts };
        }
      } finally {
        plan.free();
      }
    }
    return { whole: true, bytes: info.storedLength, parts: info.parts };
  }

  /**
   * Reads tensors one after the other, in the order of `names` (without them: all, in the order of `tensors`), the
   * next ones while the caller works, so that neighbours come in one request. Leaving the loop, an error and an
   * abort stop every read under way.
   */
  async *stream(names: Iterable<string> = this.tensors.keys(), options: StreamOptions = {}): AsyncGenerator<Tensor, void, undefined> {
    const { maxBytes = DEFAULT_AHEAD_BYTES, signal } = options;
    checkAhead(maxBytes);
    const tensors = Array.from(names, (name) => {
      const info = this.#find(name);
      checkSize(info);
      return { info, heldBytes: this.#costBytes(info) + info.byteLength };
    });
    const meter = new ProgressMeter(options.onProgress, { stage: "stream" });
    meter.expect(tensors.reduce((sum, { info }) => sum + this.#costBytes(info), 0));
    yield* inOrder(tensors, maxBytes, signal, async (info, signal) => new Tensor(info, typedArray(info.dtype, info.name, await this.#raw(info, signal, meter))));
  }

  /**
   * The model as a safetensors file that is read like a `Blob`, in slices: a slice fetches and decodes the tensors it
   * touches. Of a plain or packed file in one piece, or a delta, it is the original, byte for byte. Of others (several files,
   * formats that keep no safetensors header, weights in parts) the header is written anew: metadata sorted, then the
   * tensors in the order of `tensors`; `isOriginal` of the result tells. Ends with the model.
   */
  asSafetensorsBlob(options: SafetensorsBlobOptions = {}): SafetensorsBlob {
    const closing = this.#closing.signal;
    closing.throwIfAborted();
    const { cacheBytes = DEFAULT_DECODED_BYTES } = options;
    if (!(cacheBytes >= 0)) throw new InvalidInputError(`\`cacheBytes\` is a number of bytes, not ${String(cacheBytes)}.`);
    const decode = (info: TensorInfo, signal: AbortSignal) => this.#raw(info, signal, new ProgressMeter(undefined, { stage: "tensor" }));
    const unpacked = (this.#unpacked ??= guarded(() => this.#core.unpacked()));
    const { kind, tensors } = this;
    const file = ending(modelFile({ kind, tensors, files: this.#sources, unpacked, decode }, cacheBytes), closing);
    return new SafetensorsBlob(file, 0, file.size() as number, "application/octet-stream", unpacked.isOriginal());
  }

  /** Frees the memory of the model and stops reads under way. Calling it again does nothing. */
  close(): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new ModelClosedError());
    this.#unpacked?.free();
    this.#core.free();
    this.#decoding.ownPool?.close();
    if (this.#ownsBase) this.#base?.close();
  }

  /** Closes the model at the end of a block: `using model = await open(…)`. There where the runtime knows `Symbol.dispose`. */
  declare readonly [Symbol.dispose]: () => void;

  static {
    // As a method it would, in a runtime without the symbol, be one called "undefined".
    if (Symbol.dispose) Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.close });
  }

  #find(name: string): TensorInfo {
    const info = this.tensors.get(name);
    if (info) return info;
    const refusal = this.unreadable.get(name);
    if (refusal) throw refusal;
    const matches = closeMatches(name, this.tensors.keys());
    const hint = matches.length > 0 ? ` Did you mean ${matches.join(" or ")}?` : "";
    throw new TensorNotFoundError(name, matches, `The model has no tensor named ${JSON.stringify(name)}.${hint}`);
  }

  /** Bytes to fetch for a tensor, those of the base included. */
  #costBytes(info: TensorInfo): number {
    const inBase = info.base && this.#base?.tensors.get(info.name);
    return info.storedLength + (inBase ? this.#base!.#costBytes(inBase) : 0);
  }

  async #readRows(whole: TensorInfo, range: RowRange, options: TensorOptions, meter: ProgressMeter): Promise<Tensor> {
    const info = rowsInfo(whole, range);
    const into = options.into && room(info, options.into);
    const signal = this.#untilClosed(options.signal);
    const rows = await this.#rows.plan(this.#indices.get(info.name)!, range, { signal });
    try {
      let raw: Uint8Array<ArrayBuffer>;
      if (rows.isWhole()) {
        meter.expect(this.#costBytes(whole));
        raw = rowsOfWhole(rows, await this.#raw(whole, options.signal, meter));
      } else {
        checkRowsSize(info);
        meter.expect(partsBytes(storedParts(rows.ranges())));
        raw = await this.#rows.read(rows, { signal, onBytes: meter.arrived });
      }
      into?.set(raw);
      return new Tensor(info, typedArray(info.dtype, info.name, into ?? raw));
    } finally {
      rows.free();
    }
  }

  #untilClosed(signal: AbortSignal | undefined): AbortSignal {
    const closing = this.#closing.signal;
    // Always a signal of its own: Node warns where many listen to one.
    const either = AbortSignal.any(signal ? [signal, closing] : [closing]);
    either.throwIfAborted();
    return either;
  }

  async #raw(info: TensorInfo, signal: AbortSignal | undefined, meter: ProgressMeter, into?: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
    const closing = this.#closing.signal;
    const either = this.#untilClosed(signal);
    checkSize(info);
    const { decoder } = this.#decoding;
    const subject = { model: this.#core, index: this.#indices.get(info.name)!, info };
    decoder.expect(subject);
    const base = info.base && this.#base;
    const readOwn = (signal: AbortSignal) => readParts(this.#sources, info.parts, { signal, onBytes: meter.arrived });
    const [parts, reference] = base
      ? await sideBySide(either, (signal) => Promise.all([readOwn(signal), base.#raw(base.#find(info.name), signal, meter)]))
      : [await readOwn(either)];
    // A closed model has nothing to decode with.
    closing.throwIfAborted();
    const raw = await decoder.decode({ ...subject, parts, reference, into, signal: either });
    if (raw.byteLength !== info.byteLength) {
      throw new FormatError(`The tensor ${info.name} should have ${info.byteLength} bytes, decoding gave ${raw.byteLength}.`, { tensor: info.name });
    }
    return raw;
  }
}
