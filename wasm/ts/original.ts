/**
 * Opens the file that a packed file restores, if that is no safetensors file, inside the packed file
 * (docs/formats/zstn-virtual-header.md 6): its bytes are decoded when they are read.
 */

import { abortSiblingsOnFailure } from "./abort-siblings.js";
import { describe } from "./core-description.js";
import { readRanges } from "./byte-ranges.js";
import type { OpenFile } from "./catalog.js";
import type { CoreCatalog, CoreInstance, CoreModel, CoreUnpacked } from "./core.js";
import type { Decoding } from "./decode/worker-pool.js";
import { ModelClosedError, hasCode, type ErrorCode, type LimitError } from "./errors.js";
import { HEAD_BYTES, checkRowsSize, checkSize } from "./limits.js";
import type { CoreFile, Original } from "./opened-file.js";
import { ProgressMeter } from "./progress.js";
import { RowPlanner } from "./row-planner.js";
import { TensorCache } from "./safetensors-view/tensor-cache.js";
import { VirtualFile } from "./safetensors-view/virtual-file.js";
import type { OpenContext } from "./shards.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { TensorInfo } from "./tensor.js";

/** The size of the cache of decoded entries, in bytes. */
const CACHE_BYTES = 64 << 20;

/** Entries of at most this many bytes are decoded as a whole, since further ranges of them usually follow. */
const SMALL_BYTES = 1 << 20;

/** Why values of a tensor that are in another file are not read. The Rust library gives the same reason. */
const EXTERNAL = "restore the model beside this file with `zstn unpack`, and open it";

/**
 * Returns the packed file with the metadata of its original if it lists all tensors, and otherwise the original. Returns
 * the packed file as it is if the original has no metadata that could be listed, or is refused: then the tensors that it
 * does not list are unreadable. Rejects if the packed file is damaged. Consumes the catalog of a file that is not returned.
 */
export async function withOriginal(context: OpenContext, packed: CoreFile, openFile: OpenFile): Promise<CoreFile> {
  const { core, catalog } = packed;
  const kind = core.call(() => catalog.originalKind?.());
  const isComplete = core.call(() => catalog.isOriginalComplete());
  // NumPy arrays have no metadata.
  if (kind === undefined || kind === "bytes" || (isComplete && /^np[yz]$/.test(kind))) return packed;
  let restored: RestoredFile | undefined;
  let unused: CoreCatalog | undefined;
  try {
    restored = new RestoredFile(packed, isComplete, context);
    const head = await readHead(restored, context.options);
    const original = head && (await openFile(restored, restored.size(), head, `original.${kind}`, context.options, context.meter));
    if (!original) {
      restored.free();
      return packed;
    }
    if (isComplete) {
      core.call(() => catalog.takeMetadata(original.catalog));
      restored.free();
      return packed;
    }
    unused = original.catalog;
    const files = core.call(() => original.catalog.externalFiles?.() ?? []);
    if (files.length > 0) core.call(() => original.catalog.refuseExternal(Uint32Array.from(files.keys()), EXTERNAL));
    core.free(catalog);
    const opened = restored;
    const free = unused.free.bind(unused);
    // A catalog is freed if opening another file of the model fails.
    unused.free = () => {
      free();
      opened.close();
    };
    return { ...original, sizeBytes: packed.sizeBytes, original: restored };
  } catch (error) {
    core.free(unused);
    restored?.free();
    // An original that cannot be parsed leaves the tensors of the packed file. Damage of the packed file is reported.
    if (!restored?.failure && isRefusal(error)) return packed;
    core.free(catalog);
    await restored?.close();
    throw restored?.failure ?? error;
  }
}

/** Returns the first bytes of an original; `undefined` if it is a packed file itself, which is not read. */
async function readHead(restored: RestoredFile, options: ReadOptions): Promise<Uint8Array | undefined> {
  const headBytes = Math.min(restored.size(), HEAD_BYTES);
  const head = headBytes > 0 ? await restored.read(0, headBytes, options) : new Uint8Array(0);
  return /^Z(STN|4DM)/.test(String.fromCharCode(...head.subarray(0, 4))) ? undefined : head;
}

/** Returns whether an error is a statement about the file. */
export const isRefusal = (error: unknown): boolean => ["malformed", "unsupported", "limit"].includes((error as { code?: ErrorCode } | undefined)?.code ?? "");

/** The file that a packed file restores. */
export class RestoredFile implements Source, Original {
  /**
   * Whether the packed file lists all tensors. Then only metadata are read from this file, which are in the spans
   * between the tensors: the bytes of tensors do not matter, and are zeros.
   */
  readonly #isComplete: boolean;
  readonly #core: CoreInstance;
  readonly #source: Source;
  /** The entries of the packed file, which fill the restored one. */
  readonly #model: CoreModel;
  readonly #layout: CoreUnpacked;
  readonly #infos: readonly TensorInfo[];
  readonly #file: VirtualFile;
  readonly #rows: RowPlanner;
  readonly #cache: TensorCache;
  readonly #decoding: () => Promise<Decoding>;
  /** The decoder of the model; `undefined` before its first use. */
  #started: Promise<Decoding> | undefined;
  /** The end of the last range that was read of each entry. */
  readonly #ends = new Map<number, number>();
  /** Aborts at once when this file is closed. The memory of the core has then been freed, and must not be used. */
  readonly #closing = new AbortController();
  /** The first error of reading the packed file, other than a limit; `undefined` if there was none. */
  #failure: unknown;

  constructor({ core, catalog, source }: CoreFile, isComplete: boolean, { full, decoding }: Pick<OpenContext, "full" | "decoding">) {
    this.#isComplete = isComplete;
    this.#core = core;
    this.#source = source;
    this.#decoding = decoding;
    this.#model = core.call(({ Assembly }) => new Assembly([catalog.entries()], undefined, undefined).finish(full));
    this.#infos = describe(core, this.#model).tensors;
    this.#layout = core.call(() => this.#model.unpacked());
    this.#rows = new RowPlanner(core, this.#model, [source]);
    this.#cache = new TensorCache(CACHE_BYTES, (index, signal) => this.#decode(index, signal));
    this.#file = new VirtualFile(core, this.#layout, (index, begin, end, signal) => this.#part(index, begin, end, signal));
  }

  get failure(): unknown {
    return this.#failure;
  }

  get version(): string | undefined {
    return this.#source.version;
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

  /** Reads a part of an entry: some rows of a long one, where that is possible, and otherwise the whole entry. */
  async #part(index: number, begin: number, end: number, signal = new AbortController().signal): Promise<Uint8Array> {
    const { name, shape, byteLength } = this.#infos[index]!;
    const continues = begin > 0 && this.#ends.get(index) === begin;
    this.#ends.set(index, end);
    if (this.#isComplete && !name.startsWith("@")) return new Uint8Array(end - begin);
    if (byteLength > SMALL_BYTES && !this.#cache.has(index)) {
      if (end - begin === byteLength) return this.#decode(index, signal);
      // An entry that is read from its start to its end is decoded once, and so is one whose rows are long.
      const isWhole = (continues && end < byteLength) || byteLength > SMALL_BYTES * shape[0]!;
      if (!isWhole || byteLength > CACHE_BYTES) return this.#readRows(index, begin, end, signal);
    }
    return (await this.#cache.get(index, byteLength, signal)).subarray(begin, end);
  }

  async #readRows(index: number, begin: number, end: number, signal: AbortSignal): Promise<Uint8Array> {
    const info = this.#infos[index]!;
    const { name, shape, byteLength } = info;
    const rowBytes = byteLength / shape[0]!;
    const first = Math.floor(begin / rowBytes);
    const last = Math.ceil(end / rowBytes);
    checkRowsSize({ ...info, byteLength: (last - first) * rowBytes });
    const readWhole = () => this.#cache.get(index, byteLength, signal);
    const meter = new ProgressMeter(undefined, { stage: "tensor" });
    const rows = await this.#rows.read(index, name, [first, last], { signal, meter, readWhole, base: undefined });
    return rows.subarray(begin - first * rowBytes, end - first * rowBytes);
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
