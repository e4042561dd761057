/** A model in plain safetensors files, which is read without WebAssembly. */

import type { ModelLayout } from "../core.js";
import type { Description } from "../description.js";
import type { PlainFile } from "../opened-file.js";
import { toTransferable } from "../source/transferable.js";
import type { ReadOptions } from "../source/source.js";
import type { TensorInfo } from "../tensor.js";
import { compareText } from "./utf8-order.js";
import { PlainLayout, writeHead } from "./plain-layout.js";
import { refusal } from "./core-error.js";
import type { ShardIndex } from "./shard-index.js";

/** The reason that a tensor cannot be read: the error code, the message and the rule. */
type Refusal = readonly [kind: string, why: string, rule?: string];

export class PlainModel implements ModelLayout {
  readonly files: readonly PlainFile[];
  readonly #tensors: TensorInfo[];
  /** The tensors that cannot be read, sorted by name, with the reason. */
  readonly #refused: ReadonlyMap<string, Refusal>;

  /**
   * Creates a model of `files`. A tensor that is missing from the shard that the index names is unreadable; a tensor of
   * the same name in another shard does not replace it.
   */
  constructor(files: readonly PlainFile[], index: ShardIndex | undefined) {
    this.files = files;
    const fileOf = new Map(index?.fileOf);
    const names = files.map(({ header }) => new Set(header.tensors.map(({ name }) => name)));
    this.#tensors = files.flatMap(({ header, dataBegin }, file) =>
      header.tensors
        .filter(({ name }) => {
          if (!fileOf.has(name)) fileOf.set(name, file);
          return fileOf.get(name) === file;
        })
        .map(({ name, dtype, shape, begin, end }) => {
          const length = end - begin;
          return { name, dtype, shape: [...shape], byteLength: length, storedLength: length, parts: [{ file, offset: dataBegin + begin, length }] };
        }),
    );
    const refused = new Map<string, Refusal>();
    for (const [name, file] of fileOf) {
      if (!names[file]!.has(name)) refused.set(name, ["malformed", `the index lists the tensor in \`${index!.files[file]}\`, where it is not`, "sharded.tensor_missing"]);
    }
    for (const [file, { header }] of files.entries()) {
      for (const [name, why] of header.refused) if ((fileOf.get(name) ?? file) === file) refused.set(name, ["unsupported", why]);
    }
    this.#refused = new Map([...refused].sort(([a], [b]) => compareText(a, b)));
  }

  describe(): Description {
    const originalSize = this.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    return { kind: "safetensors", originalSize, metadata: Object.fromEntries(this.#metadata()), tensors: this.#tensors, refused: [...this.#refused].map(([tensor, [kind, why, rule]]) => refusal(kind, why, { tensor, rule })) };
  }

  /** Returns the metadata of all files, sorted by name. If a name occurs in several files, the first file wins. */
  #metadata(): [string, string][] {
    const all = new Map([...this.files].reverse().flatMap(({ header }) => header.metadata));
    return [...all].sort(([a], [b]) => compareText(a, b));
  }

  /** Reads a tensor, into `into` if it is given. Otherwise the bytes of the source are copied if they may have other owners. */
  async read({ parts: [part] }: TensorInfo, options: ReadOptions, into: Uint8Array<ArrayBuffer> | undefined): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = part?.length ? await this.files[part.file]!.source.read(part.offset, part.length, options) : new Uint8Array(0);
    options.signal?.throwIfAborted();
    if (!into) return toTransferable(bytes);
    into.set(bytes);
    return into;
  }

  needsBase(): boolean {
    return false;
  }

  unpacked(): PlainLayout {
    const [refused] = this.#refused;
    if (refused) throw refusal("unsupported", `this model cannot be restored as a safetensors file, since a tensor cannot be read: ${refused[1][1]}`, { tensor: refused[0] });
    const [file] = this.files;
    if (this.files.length > 1) return new PlainLayout(writeHead(this.#metadata(), this.#tensors), this.#tensors, false);
    const head = new Uint8Array(file!.dataBegin);
    for (const { offset, bytes } of [{ offset: 0, bytes: file!.head }, ...file!.supplied]) head.set(bytes.subarray(0, head.byteLength - offset), offset);
    return new PlainLayout(head, this.#tensors, true);
  }

  free(): void {}
}
