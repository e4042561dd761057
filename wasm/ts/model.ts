/** An open model: the list of its tensors, and reading one of them. */

import type { CoreCatalog } from "./core.js";
import { typedArray } from "./dtype.js";
import { FormatError, ModelClosedError, TensorNotFoundError } from "./errors.js";
import { ProgressMeter } from "./progress.js";
import type { OnProgress } from "./progress.js";
import { guarded } from "./rejection.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { Stats, Traffic } from "./source/traffic.js";
import { closeMatches } from "./suggest.js";
import { Tensor } from "./tensor.js";
import type { TensorInfo } from "./tensor.js";

/** What `model.tensor` may be given besides the name. */
export interface TensorOptions {
  /** Stops the read; the call then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called while the bytes arrive. */
  onProgress?: OnProgress;
}

/** An open file. Made by `open`. */
export class Model {
  /** Format of the file: `"zstn"` or `"safetensors"`. */
  readonly kind: string;
  /** Length of the file, in bytes. */
  readonly size: number;
  /** Length of the safetensors file it was packed from, in bytes; equal to `size` when it is one. */
  readonly originalSize: number;
  /** The `__metadata__` of the safetensors header; empty when there is none. */
  readonly metadata: Readonly<Record<string, string>>;
  /** All tensors by name, in the order of their data. */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** What reading has cost so far; live. */
  readonly stats: Stats;

  readonly #source: Source;
  readonly #catalog: CoreCatalog;
  readonly #indices = new Map<string, number>();
  readonly #closing = new AbortController();

  /** @internal */
  constructor(source: Source, sizeBytes: number, catalog: CoreCatalog, traffic: Traffic) {
    this.#source = source;
    this.#catalog = catalog;
    this.size = sizeBytes;
    this.stats = traffic;
    this.kind = guarded(() => catalog.kind());
    this.originalSize = guarded(() => catalog.originalBytes());
    this.metadata = Object.freeze(guarded(() => catalog.metadata()));
    const tensors = new Map<string, TensorInfo>();
    for (const [index, info] of guarded(() => catalog.tensors()).entries()) {
      tensors.set(info.name, Object.freeze(info));
      this.#indices.set(info.name, index);
    }
    this.tensors = tensors;
  }

  /** Reads one tensor: fetches its stored bytes, nothing else, and decodes them. */
  async tensor(name: string, options: TensorOptions = {}): Promise<Tensor> {
    const info = this.#find(name);
    const stored = await this.#fetch(info, options);
    // A closed model has no catalog to decode with.
    this.#closing.signal.throwIfAborted();
    const raw = guarded(() => this.#catalog.decode(this.#indices.get(name)!, stored));
    if (raw.byteLength !== info.byteLength) {
      throw new FormatError(`The tensor ${name} should have ${info.byteLength} bytes, decoding gave ${raw.byteLength}.`, { tensor: name });
    }
    return new Tensor(info, typedArray(info.dtype, name, raw));
  }

  /** Frees the memory of the model and stops reads under way. Calling it again does nothing. */
  close(): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new ModelClosedError());
    this.#catalog.free();
  }

  #find(name: string): TensorInfo {
    const info = this.tensors.get(name);
    if (info) return info;
    const matches = closeMatches(name, this.tensors.keys());
    const hint = matches.length > 0 ? ` Did you mean ${matches.join(" or ")}?` : "";
    throw new TensorNotFoundError(name, matches, `The model has no tensor named ${JSON.stringify(name)}.${hint}`);
  }

  async #fetch(info: TensorInfo, { signal, onProgress }: TensorOptions): Promise<Uint8Array> {
    const closing = this.#closing.signal;
    const either = signal ? AbortSignal.any([signal, closing]) : closing;
    either.throwIfAborted();
    if (info.storedLength === 0) return new Uint8Array(0);
    const meter = new ProgressMeter(onProgress, { stage: "tensor", tensor: info.name });
    meter.expect(info.storedLength);
    const options: ReadOptions = { signal: either, onBytes: meter.arrived };
    return this.#source.read(info.storedOffset, info.storedLength, options);
  }
}
