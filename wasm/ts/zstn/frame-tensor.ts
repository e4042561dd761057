/** One tensor of a packed file, as decoders need it: its task, and the calls of the WebAssembly module that decode it. */

import type { Decodable } from "../decode/decoder.js";
import { Instance } from "../instance.js";
import type { ReaderCore } from "../reader-core.js";
import type { StoredPart, TensorInfo } from "../tensor.js";
import type { WasmModule } from "../wasm-input.js";

/**
 * The instance that decodes the tensors of a model. It is loaded when it is first needed, and is then the only one that the
 * model uses.
 */
export class ReaderInstance extends Instance<unknown> {
  #reader: Instance<ReaderCore> | undefined;

  constructor() {
    super(undefined, () => {});
  }

  /** Sets the instance, unless it has been set before. */
  bind(reader: Instance<ReaderCore>): void {
    this.#reader ??= reader;
  }

  override check(): void {
    this.#reader?.check();
  }

  /** Runs `work`. Only calls by `read` can trap. */
  override call<R>(work: (api: unknown) => R): R {
    this.check();
    return work(undefined);
  }

  /** Calls into the loaded instance. */
  read<R>(work: (api: ReaderCore) => R): R {
    return this.#reader!.call(work);
  }
}

/** The length of a task without the name of the tensor, in bytes. */
const TASK_BYTES = 42;

export class FrameTensor implements Decodable {
  readonly isFrame = true;
  readonly #instance: ReaderInstance;
  readonly #task: Uint8Array<ArrayBuffer>;

  /** `checksum` contains the eight bytes of the frame's checksum, if the file has them. `tableBegin` is the offset of the block table, or 0. */
  constructor(instance: ReaderInstance, { name, byteLength }: TensorInfo, { offset, length }: StoredPart, checksum: Uint8Array | undefined, tableBegin: number) {
    this.#instance = instance;
    const text = new TextEncoder().encode(name);
    // `core/src/catalog/frame_task.rs` describes the encoding.
    this.#task = new Uint8Array(TASK_BYTES + text.byteLength);
    const view = new DataView(this.#task.buffer);
    for (const [i, number] of [byteLength, offset, length, tableBegin].entries()) view.setBigUint64(8 * i, BigInt(number), true);
    if (checksum) this.#task.set([...checksum, 1], 32);
    this.#task.set(text, TASK_BYTES);
  }

  isPlain(): boolean {
    return false;
  }

  /** Returns the encoded task, in memory of its own that may be transferred. */
  task(): Uint8Array<ArrayBuffer> {
    return this.#task.slice();
  }

  frameTask(): Uint8Array<ArrayBuffer> {
    return this.#task;
  }

  module(): WasmModule {
    return this.#instance.read((api) => api.compiledModule());
  }

  decode(_index: number, [stored]: Uint8Array[], _base?: Uint8Array, into?: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    return this.#instance.read((api) => api.decodeFrame(this.#task, stored!, into));
  }

  /** Returns the plan for reading a part of the tensor, as `ReaderCore.partRanges` documents it. */
  partRanges(table: Uint8Array, begin: number, end: number): Float64Array {
    return this.#instance.read((api) => api.partRanges(this.#task, table, begin, end));
  }

  decodePart(table: Uint8Array, begin: number, end: number, fetched: Uint8Array[]): Uint8Array<ArrayBuffer> {
    return this.#instance.read((api) => api.decodePart(this.#task, table, begin, end, fetched));
  }

  /** Returns the lines that `CoreModel.planeSizes` documents. */
  planeSizes(table: Uint8Array): string {
    return this.#instance.read((api) => api.planeSizes(this.#task, table));
  }
}
