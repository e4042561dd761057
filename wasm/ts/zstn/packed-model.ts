/**
 * A model with at least one file that was packed from safetensors, described without WebAssembly. The decoder is loaded
 * with the first tensor.
 */

import { readRanges, totalBytes } from "../byte-ranges.js";
import { loadReader } from "../core-loaders.js";
import type { Decoder } from "../decode/decoder.js";
import type { Decoding, WorkerPool } from "../decode/worker-pool.js";
import { uncompared } from "../mixed-versions.js";
import type { Description } from "../description.js";
import type { PackedFile, PlainFile } from "../opened-file.js";
import type { ByteSpan } from "../rows.js";
import { PlainLayout } from "../safetensors/plain-layout.js";
import { PlainModel, type PlainPartContext } from "../safetensors/plain-model.js";
import type { ShardIndex } from "../safetensors/shard-index.js";
import { shortDigest } from "../short-digest.js";
import type { ReadOptions, Source } from "../source/source.js";
import type { StoredPart, StoredPlane, TensorInfo } from "../tensor.js";
import { FrameTensor, ReaderInstance } from "./frame-tensor.js";
import { inOrder } from "./container-index.js";
import type { IndexRecord } from "./container-index.js";
import type { PackedHead } from "./packed-head.js";
import { ENTRY_BYTES } from "./section.js";

/** A tensor in a packed file: its file, the number of its record and the number of its entry in the integrity section. */
interface Place {
  file: number;
  head: PackedHead;
  record: IndexRecord;
  entry: number;
}

/** How some bytes of a tensor are read from its blocks. */
interface Cut {
  table: Uint8Array;
  /** The number of bytes of the tensor that are decoded together. */
  bandBytes: number;
  /** The ranges of the blocks. */
  parts: StoredPart[];
}

export class PackedModel extends PlainModel {
  override readonly instance = new ReaderInstance();
  readonly #sources: readonly Source[];
  readonly #places = new Map<string, Place>();
  readonly #tables = new Map<string, Uint8Array>();
  readonly #startDecoding: () => Promise<Decoding>;
  #decoding: Promise<Decoding> | undefined;

  constructor(files: readonly PlainFile[], index: ShardIndex | undefined, startDecoding: () => Promise<Decoding>) {
    super(files, index);
    this.#sources = files.map(({ source }) => source);
    this.#startDecoding = startDecoding;
    const numbers = files.map((file) => new Map((file as Partial<PackedFile>).packed?.records.map(({ name }, number) => [name, number])));
    const owners = new Map<IndexRecord, string>();
    for (const info of this.tensors) {
      const [part] = info.parts;
      const { file } = part!;
      const head = (files[file] as Partial<PackedFile>).packed;
      if (!head) continue;
      const number = numbers[file]!.get(info.name)!;
      const record = head.records[number]!;
      const { begin, end } = head.records[record.target]!.frame!;
      const entry = head.entries[number]!;
      this.#places.set(info.name, { file, head, record, entry });
      owners.set(record, info.name);
      const digests = head.section.get("TENS");
      Object.assign(info, { storedLength: end - begin, parts: [{ file, offset: begin, length: end - begin }], ...(digests && { digest: shortDigest(digests, entry * ENTRY_BYTES.TENS) }) });
    }
    for (const info of this.tensors) {
      const place = this.#places.get(info.name);
      if (!place || place.record.frame) continue;
      const aliasOf = owners.get(place.head.records[place.record.target]!);
      if (aliasOf !== undefined) Object.assign(info, { aliasOf });
    }
  }

  override isPlain(index: number): boolean {
    return !this.#places.has(this.tensors[index]!.name);
  }

  override describe(): Description {
    const packed = this.files.map((file) => (file as Partial<PackedFile>).packed);
    const originalSize = this.files.reduce((sum, { sizeBytes }, file) => sum + (packed[file]?.originalBytes ?? sizeBytes), 0);
    return { ...super.describe(), kind: packed[0] ? "zstn" : "safetensors", originalSize };
  }

  override async read(info: TensorInfo, options: ReadOptions, into: Uint8Array<ArrayBuffer> | undefined, wrap = (decoder: Decoder) => decoder): Promise<Uint8Array<ArrayBuffer>> {
    const place = this.#places.get(info.name);
    if (!place) return super.read(info, options, into);
    const signal = options.signal!;
    const start = async () => {
      const [reader, { decoder }] = await Promise.all([this.#load(), this.#decode()]);
      const target = { instance: reader, model: this.#frame(info, place), index: 0, info, sources: this.#sources };
      const wrapped = wrap(decoder);
      wrapped.warmUp(target);
      const load = wrapped.divides?.(target);
      // If the table or the code for bands cannot be loaded, the tensor is decoded as a whole.
      const [table, bands] = load ? await Promise.all([this.#table(place, { signal }), import("../decode/bands.js")]).catch(() => []) : [];
      return (parts: Uint8Array[]) => {
        signal.throwIfAborted();
        const request = { ...target, parts, reference: undefined, into, signal };
        return table && bands ? bands.decodeInBands(request, table, wrapped, load!) : wrapped.decode(request);
      };
    };
    const [parts, decode] = await Promise.all([readRanges(this.#sources, info.parts, options), start()]);
    return decode(parts);
  }

  override async readSpan(info: TensorInfo, span: ByteSpan, context: PlainPartContext): Promise<Uint8Array<ArrayBuffer>> {
    const place = this.#places.get(info.name);
    if (!place) return super.readSpan(info, span, context);
    const { signal, meter } = context;
    const [begin, end] = span;
    if (begin === end) return new Uint8Array(0);
    const cut = await this.#cut(info, place, span, { signal });
    if (!cut) {
      const whole = await context.readWhole();
      return end - begin === info.byteLength ? whole : whole.slice(begin, end);
    }
    meter.expectMore(totalBytes(cut.parts));
    const fetched = await readRanges(uncompared(this.#sources), cut.parts, { signal, onBytes: meter.arrived });
    signal.throwIfAborted();
    return this.#frame(info, place).decodePart(cut.table, begin, end, fetched);
  }

  override async partsOf(info: TensorInfo, span: ByteSpan, options: ReadOptions): Promise<StoredPart[] | undefined> {
    const place = this.#places.get(info.name);
    if (!place) return super.partsOf(info, span, options);
    if (span[0] === span[1]) return [];
    return (await this.#cut(info, place, span, options))?.parts;
  }

  override async bandBytes(info: TensorInfo, position: number, options: ReadOptions): Promise<number | undefined> {
    const place = this.#places.get(info.name);
    if (!place) return super.bandBytes(info, position, options);
    return (await this.#cut(info, place, [position, position + 1], options))?.bandBytes;
  }

  override async planes(info: TensorInfo, options: ReadOptions): Promise<StoredPlane[] | undefined> {
    const place = this.#places.get(info.name);
    const table = place && (await this.#table(place, options));
    if (!table) return undefined;
    const [{ parsePlanes }] = await Promise.all([import("../stored-planes.js"), this.#load()]);
    options.signal?.throwIfAborted();
    return parsePlanes(this.#frame(info, place).planeSizes(table));
  }

  override free(): void {
    void this.#decoding?.then(({ ownPool }) => ownPool?.close());
  }

  protected override original(file: PlainFile): PlainLayout {
    const { packed } = file as Partial<PackedFile>;
    return packed ? new PackedLayout(packed, this.tensors) : super.original(file);
  }

  /** Loads the decoder's module. After a trap of the instance, the model is lost. */
  async #load(): Promise<ReaderInstance> {
    this.instance.bind(await loadReader());
    return this.instance;
  }

  /** Returns the decoder. The first call creates the workers. */
  async #decode(): Promise<Decoding> {
    return (this.#decoding ??= this.#startDecoding());
  }

  /** Returns the tensor for a decoder. The module must be loaded. */
  #frame(info: TensorInfo, { head, entry }: Place): FrameTensor {
    const [part] = info.parts;
    const checksums = head.section.get("FRMS");
    return new FrameTensor(this.instance, info, part!, checksums?.subarray(8 * entry, 8 * entry + 8), head.tables[entry]?.begin ?? 0);
  }

  /** Plans to read a part of a tensor from its blocks; `undefined` if the whole tensor has to be read. */
  async #cut(info: TensorInfo, place: Place, [begin, end]: ByteSpan, options: ReadOptions): Promise<Cut | undefined> {
    const table = await this.#table(place, options);
    if (!table || (begin === 0 && end === info.byteLength)) return undefined;
    await this.#load();
    options.signal?.throwIfAborted();
    const [bandBytes, ...ranges] = this.#frame(info, place).partRanges(table, begin, end);
    const parts = Array.from({ length: ranges.length / 2 }, (_, i) => ({ file: place.file, offset: ranges[2 * i]!, length: ranges[2 * i + 1]! }));
    return { table, bandBytes: bandBytes!, parts };
  }

  /** Returns the block table of a tensor, which is read unless it has been read before; `undefined` if there is none. */
  async #table({ file, head, entry }: Place, options: ReadOptions): Promise<Uint8Array | undefined> {
    const { begin, end } = head.tables[entry] ?? { begin: 0, end: 0 };
    if (begin === end) return undefined;
    const key = `${file} ${begin}`;
    const known = head.fetched.part(begin, end) ?? this.#tables.get(key);
    if (known) return known;
    const [table] = await readRanges(uncompared(this.#sources), [{ file, offset: begin, length: end - begin }], options);
    this.#tables.set(key, table!);
    return table;
  }
}

/** The layout of a packed file as the file that was packed. Records may be in another order than the data. */
class PackedLayout extends PlainLayout {
  readonly #order: readonly number[];

  constructor({ originalHead, records }: PackedHead, tensors: readonly TensorInfo[]) {
    const order = inOrder(records.map(({ begin, end }, number) => ({ begin, end, number }))).map(({ number }) => number);
    super(originalHead, order.map((number) => tensors[number]!), true);
    this.#order = order;
  }

  override tensors(begin: number, end: number): Float64Array {
    return super.tensors(begin, end).map((value, i) => (i % 3 === 0 ? this.#order[value]! : value));
  }
}

/**
 * Creates the model of opened files. At least one of them is packed. If the caller has chosen the `workers`, they are
 * created at once, so that a wrong choice is an error of `open`.
 */
export async function packedModel(files: readonly PlainFile[], index: ShardIndex | undefined, decoding: () => Promise<Decoding>, workers: number | WorkerPool | undefined): Promise<PackedModel> {
  if (workers !== undefined) await decoding();
  return new PackedModel(files, index, decoding);
}
