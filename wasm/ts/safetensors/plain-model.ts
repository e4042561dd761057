/** A model in plain safetensors files, which is read without WebAssembly. */

import type { ModelInstance, ModelLayout } from "../core.js";
import type { Decoder } from "../decode/decoder.js";
import type { Description } from "../description.js";
import { Instance } from "../instance.js";
import type { PlainFile } from "../opened-file.js";
import type { ProgressMeter } from "../progress.js";
import type { ByteSpan } from "../rows.js";
import { toTransferable } from "../source/transferable.js";
import type { ReadOptions } from "../source/source.js";
import type { StoredPart, StoredPlane, TensorInfo } from "../tensor.js";
import { compareText } from "./utf8-order.js";
import { PlainLayout, writeHead } from "./plain-layout.js";
import { refusal } from "./core-error.js";
import type { ShardIndex } from "./shard-index.js";

/** The reason that a tensor cannot be read: the error code, the message and the rule. */
type Refusal = readonly [kind: string, why: string, rule?: string];

/** The context of a read of a part of a tensor. */
export interface PlainPartContext {
  readonly signal: AbortSignal;
  readonly meter: ProgressMeter;
  /** Reads and decodes the whole tensor. */
  readWhole(): Promise<Uint8Array<ArrayBuffer>>;
}

export class PlainModel implements ModelLayout {
  /** The instance that may be lost by a trap. A plain file needs none. */
  readonly instance: ModelInstance = new Instance<unknown>(undefined, () => {});
  readonly files: readonly PlainFile[];
  protected readonly tensors: TensorInfo[];
  /** The tensors that cannot be read, sorted by name, with the reason. */
  readonly #refused: ReadonlyMap<string, Refusal>;

  /**
   * Creates a model of `files`. A tensor that is missing from the shard that the index names is unreadable; a tensor of
   * the same name in another shard does not replace it.
   */
  constructor(files: readonly PlainFile[], index: ShardIndex | undefined) {
    this.files = files;
    const fileOf = new Map(index?.fileOf);
    this.tensors = files.flatMap(({ header, dataBegin }, file) =>
      header.tensors
        .filter(({ name }) => {
          // A file has no name twice. A map of all names of a large model would take tens of milliseconds.
          if (files.length > 1 && !fileOf.has(name)) fileOf.set(name, file);
          return (fileOf.get(name) ?? file) === file;
        })
        .map(({ name, dtype, shape, begin, end }) => {
          const length = end - begin;
          return { name, dtype, shape, byteLength: length, storedLength: length, parts: [{ file, offset: dataBegin + begin, length }] };
        }),
    );
    const refused = new Map<string, Refusal>();
    const names = index && files.map(({ header }) => new Set(header.tensors.map(({ name }) => name)));
    for (const [name, file] of index?.fileOf ?? []) {
      if (!names![file]!.has(name)) refused.set(name, ["malformed", `the index lists the tensor in \`${index!.files[file]}\`, where it is not`, "sharded.tensor_missing"]);
    }
    for (const [file, { header }] of files.entries()) {
      for (const [name, why] of header.refused) if ((fileOf.get(name) ?? file) === file) refused.set(name, ["unsupported", why]);
    }
    this.#refused = new Map([...refused].sort(([a], [b]) => compareText(a, b)));
  }

  describe(): Description {
    const originalSize = this.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    return { kind: "safetensors", originalSize, metadata: Object.fromEntries(this.#metadata()), tensors: this.tensors, refused: [...this.#refused].map(([tensor, [kind, why, rule]]) => refusal(kind, why, { tensor, rule })) };
  }

  /** Returns the metadata of all files, sorted by name. If a name occurs in several files, the first file wins. */
  #metadata(): [string, string][] {
    const all = new Map([...this.files].reverse().flatMap(({ header }) => header.metadata));
    return [...all].sort(([a], [b]) => compareText(a, b));
  }

  /**
   * Reads a tensor, into `into` if it is given. Otherwise the bytes of the source are copied if they may have other owners.
   * A packed tensor is decoded by the decoder that `wrap` makes from the model's.
   */
  async read({ parts: [part] }: TensorInfo, options: ReadOptions, into: Uint8Array<ArrayBuffer> | undefined, _wrap?: (decoder: Decoder) => Decoder): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = part?.length ? await this.files[part.file]!.source.read(part.offset, part.length, options) : new Uint8Array(0);
    options.signal?.throwIfAborted();
    if (!into) return toTransferable(bytes);
    into.set(bytes);
    return into;
  }

  /** Reads some bytes of a tensor. */
  readSpan(info: TensorInfo, span: ByteSpan, { signal, meter }: PlainPartContext): Promise<Uint8Array<ArrayBuffer>> {
    const parts = plainParts(info, span);
    meter.expectMore(span[1] - span[0]);
    return this.read({ ...info, parts }, { signal, onBytes: meter.arrived }, undefined);
  }

  /** Returns the ranges to fetch for some bytes of a tensor; `undefined` if the whole tensor has to be read. */
  async partsOf(info: TensorInfo, span: ByteSpan, _options: ReadOptions): Promise<StoredPart[] | undefined> {
    return plainParts(info, span);
  }

  /**
   * Returns the number of bytes that are decoded together around `position` in a tensor, or 0 if it is not stored in
   * blocks; `undefined` if it can only be read as a whole.
   */
  async bandBytes(_info: TensorInfo, _position: number, _options: ReadOptions): Promise<number | undefined> {
    return 0;
  }

  /** Returns the sizes of a tensor's planes; `undefined` for a tensor that is not stored in planes. Absent if there are none. */
  planes?(info: TensorInfo, options: ReadOptions): Promise<StoredPlane[] | undefined>;

  isPlain(_index: number): boolean {
    return true;
  }

  needsBase(): boolean {
    return false;
  }

  unpacked(): PlainLayout {
    const [refused] = this.#refused;
    if (refused) throw refusal("unsupported", `this model cannot be restored as a safetensors file, since a tensor cannot be read: ${refused[1][1]}`, { tensor: refused[0] });
    const [file] = this.files;
    if (this.files.length > 1) return new PlainLayout(writeHead(this.#metadata(), this.tensors), this.tensors, false);
    return this.original(file!);
  }

  /** Returns the layout of the file that `file`, the only one, is or was packed from. */
  protected original(file: PlainFile): PlainLayout {
    const head = new Uint8Array(file.dataBegin);
    for (const { offset, bytes } of [{ offset: 0, bytes: file.head }, ...file.supplied]) head.set(bytes.subarray(0, head.byteLength - offset), offset);
    return new PlainLayout(head, this.tensors, true);
  }

  free(): void {}
}

/** Returns the ranges of some bytes of an uncompressed tensor: one, or none for an empty span. */
function plainParts({ parts: [part] }: TensorInfo, [begin, end]: ByteSpan): StoredPart[] {
  return begin === end ? [] : [{ file: part!.file, offset: part!.offset + begin, length: end - begin }];
}
