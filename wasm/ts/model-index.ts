/**
 * The index of a model: the bytes that opening it reads, in a compressed array that an application stores or sends to a
 * worker. Opening with it runs the same parsers on these bytes, so that they are checked like the bytes of a file.
 *
 * The array begins with eight bytes, the format and its version. A gzip stream follows, whose checksum detects damage: the
 * length of a JSON text (32 bits), this text, which `Contents` describes, and the bytes of all ranges.
 */

import { FormatError, InvalidInputError, LimitError, SourceChangedError, UnsupportedError } from "./errors.js";
import { HEAD_BYTES } from "./limits.js";
import type { ModelKind } from "./model-kind.js";
import type { PackedFile, PlainFile, ReadFile, ReadShards } from "./opened-file.js";
import type { OpenedModel } from "./opened-model.js";
import { isBrowser } from "./source/environment.js";
import type { Pinned } from "./source/http/pinned.js";
import { ifRangeOf, strongEtag } from "./source/http/validator.js";
import type { Validators } from "./source/http/validator.js";
import type { ReadOptions, Source } from "./source/source.js";

/** The first bytes of an index; the last one is the version. */
const MAGIC = [0x5a, 0x53, 0x54, 0x4e, 0x49, 0x44, 0x58, 1];

/**
 * Returns the maximum length of an index after decompression. An index of a very large model takes a few million bytes, and
 * compression makes lists of tensors 10 to 30 times shorter.
 */
const maxBytesOf = (compressedBytes: number): number => Math.min(256 << 20, (1 << 20) + 200 * compressedBytes);

/** Returns whether an index may contain only `kept` bytes of a read of `length` bytes. Memory is allocated for all of them. */
const mayLack = (length: number, kept: number): boolean => length <= 4 * kept + 2 * HEAD_BYTES;

/** A read of `length` bytes at `offset`, of which the index contains `kept` bytes from `skipped` on. Opening ignores the others. */
type StoredRead = [offset: number, length: number, skipped: number, kept: number];

/** A file of the model. */
interface StoredFile {
  /** The name of a shard; empty for the file that is opened. */
  name: string;
  sizeBytes: number;
  /** Absent for a file without a version, and for one whose server does not support ranges. Opening reads and compares it. */
  validators?: Validators;
  reads: StoredRead[];
}

/** The JSON text of an index. */
interface Contents {
  files: StoredFile[];
}

/** Creates the source of the file with a name. Only the sources of a model's own files have names. */
export type WithIndex = (name: string | undefined, create: (pinned?: Pinned) => Source) => Source;

/** Returns the index of an opened model. */
export async function writeIndex({ files, shards }: OpenedModel, kind: ModelKind): Promise<Uint8Array<ArrayBuffer>> {
  const isRestored = files.some(({ head, original, views }) => original || views || (/^ZSTN/.test(String.fromCharCode(...head.subarray(0, 4))) && head[5]! & 8));
  if (isRestored || kind === "compressed-tensors" || (files.length > 1 && !shards)) {
    const what = isRestored ? "files that were packed from other formats than safetensors" : kind === "compressed-tensors" ? "compressed-tensors, which need config.json" : "models in several files without an index of shards";
    throw new UnsupportedError(`There is no index of ${what}: open this model without one.`);
  }
  const bytes: Uint8Array[] = [];
  const stored = files.map((file) => storedFile(file, shards ? file.name! : "", bytes));
  if (shards) stored.push(storedFile(asFile(shards), "", bytes));
  const json = new TextEncoder().encode(JSON.stringify({ files: stored } satisfies Contents));
  const packed = await through(new CompressionStream("gzip"), [Uint32Array.of(json.byteLength), json, ...bytes], Infinity);
  const index = new Uint8Array(MAGIC.length + packed.byteLength);
  index.set(MAGIC);
  index.set(packed, MAGIC.length);
  return index;
}

/** Returns an index of shards as a file that was read like any other. */
function asFile({ source, text }: ReadShards): ReadFile {
  const rest = { offset: HEAD_BYTES, bytes: text.subarray(HEAD_BYTES) };
  return { source, sizeBytes: text.byteLength, head: text.subarray(0, HEAD_BYTES), supplied: rest.bytes.byteLength > 0 ? [rest] : [] };
}

/** Describes a file, and adds the bytes that its description refers to. */
function storedFile(file: ReadFile & Partial<PackedFile>, name: string, all: Uint8Array[]): StoredFile {
  const { source, sizeBytes, head, supplied, packed } = file;
  const used = packed ? [[0, packed.fetched.prefixBytes], [packed.bandsEnd, sizeBytes]] : [[0, "header" in file ? (file as PlainFile).dataBegin : sizeBytes]];
  const reads = [{ offset: 0, bytes: head }, ...supplied].map(({ offset, bytes }): StoredRead => {
    const length = bytes.byteLength;
    const inside = used.map(([begin, end]) => [Math.max(begin! - offset, 0), Math.min(end! - offset, length)] as const).filter(([begin, end]) => begin < end);
    let skipped = Math.min(length, ...inside.map(([begin]) => begin));
    let kept = Math.max(skipped, ...inside.map(([, end]) => end)) - skipped;
    if (!mayLack(length, kept)) [skipped, kept] = [0, length];
    all.push(bytes.subarray(skipped, skipped + kept));
    return [offset, length, skipped, kept];
  });
  const { validators, isWhole } = source.pinned ?? {};
  const { etag, lastModified, isDateStrong = false } = validators ?? {};
  return { name, sizeBytes, ...(!isWhole && (etag ?? lastModified) !== undefined && { validators: { etag, lastModified, isDateStrong } }), reads };
}

/**
 * Parses an index. The sources that the result creates answer the reads of opening with its bytes. Rejects with an
 * `InvalidInputError`, a `FormatError`, a `LimitError` or an `UnsupportedError` if it cannot be used.
 */
export async function readIndex(index: unknown): Promise<WithIndex> {
  if (!(index instanceof Uint8Array)) throw new InvalidInputError("`index` must be the Uint8Array that `model.index()` returned.");
  const isMagic = (byte: number, at: number) => index[at] === byte;
  if (!MAGIC.slice(0, -1).every(isMagic)) throw damaged("it does not begin like one");
  if (!MAGIC.every(isMagic)) throw new UnsupportedError("The index of the model was made by another version of this package: open the model without it, and make another one.");
  const bytes = await through(new DecompressionStream("gzip"), [index.subarray(MAGIC.length)], maxBytesOf(index.byteLength)).catch((error: unknown) => {
    throw error instanceof LimitError ? error : damaged("it cannot be decompressed", error);
  });
  const files = new Map(parse(bytes).map((file) => [file.name, file]));
  return (name, create) => {
    const file = name === undefined ? undefined : files.get(name);
    return file ? sourceWith(file, create(pinnedTo(file))) : create();
  };
}

/** A file with the bytes that opening reads. */
interface IndexedFile extends StoredFile {
  /** The bytes of each read, by its offset and length; `undefined` where opening ignores them. */
  known: Map<string, { skipped: number; bytes: Uint8Array }>;
}

function parse(bytes: Uint8Array): IndexedFile[] {
  try {
    const textEnd = 4 + new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
    const { files } = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(4, textEnd))) as Contents;
    let at = textEnd;
    const parsed = files.map((file): IndexedFile => {
      const known = new Map<string, { skipped: number; bytes: Uint8Array }>();
      for (const [offset, length, skipped, kept] of file.reads) {
        const isInside = [offset, length, skipped, kept, file.sizeBytes].every((number) => Number.isSafeInteger(number) && number >= 0) && skipped + kept <= length && offset + length <= file.sizeBytes;
        if (!isInside || at + kept > bytes.byteLength || !mayLack(length, kept)) throw new Error("a read is outside its file");
        known.set(`${offset} ${length}`, { skipped, bytes: bytes.subarray(at, (at += kept)) });
      }
      const { etag, lastModified } = file.validators ?? {};
      if (![file.name, etag ?? "", lastModified ?? ""].every((text) => typeof text === "string")) throw new Error("a field is not a text");
      return { ...file, known };
    });
    if (at !== bytes.byteLength) throw new Error("bytes follow the last read");
    return parsed;
  } catch (error) {
    throw damaged((error as Error).message, error);
  }
}

/** Returns the version of a file, with which an HTTP source continues; `undefined` if there is none. */
function pinnedTo({ sizeBytes, validators }: StoredFile): Pinned | undefined {
  if (!validators) return undefined;
  // A page cannot know before the first response whether this header needs a preflight request.
  return { sizeBytes, validators, ifRange: isBrowser() ? undefined : ifRangeOf(validators), kept: new Uint8Array(0), announced: true, version: strongEtag(validators) };
}

/** Returns `source` with the reads of opening answered from the index, or compared with it if the source has no version yet. */
function sourceWith({ known, sizeBytes }: IndexedFile, source: Source): Source {
  const isCompared = !source.pinned;
  const changed = () => new SourceChangedError("The file has changed since the index of the model was made: open it without the index, and make another one.");
  return {
    async size(options) {
      if ((await source.size(options)) !== sizeBytes) throw changed();
      return sizeBytes;
    },
    async read(offset, length, options: ReadOptions = {}) {
      const stored = known.get(`${offset} ${length}`);
      if (!stored) return source.read(offset, length, options);
      const { skipped, bytes } = stored;
      if (isCompared) {
        const read = await source.read(offset, length, options);
        if (bytes.some((byte, i) => byte !== read[skipped + i])) throw changed();
        return read;
      }
      options.onBytes?.(length);
      if (bytes.byteLength === length) return bytes;
      const all = new Uint8Array(length);
      all.set(bytes, skipped);
      return all;
    },
    get pinned() {
      return source.pinned;
    },
  };
}

function damaged(problem: string, cause?: unknown): FormatError {
  return new FormatError(`The index of the model is damaged: ${problem}. Open the model without it, and make another one.`, {}, { cause });
}

/** Sends `chunks` through a stream. Rejects with a `LimitError` as soon as more than `maxBytes` come out. */
async function through(stream: GenericTransformStream, chunks: ArrayBufferView[], maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const reader = new Blob(chunks as BlobPart[]).stream().pipeThrough(stream as ReadableWritablePair<Uint8Array<ArrayBuffer>, Uint8Array>).getReader();
  const out: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for (;;) {
    const { value } = await reader.read();
    if (!value) break;
    out.push(value);
    if ((length += value.byteLength) > maxBytes) {
      void reader.cancel().catch(() => {});
      throw new LimitError(`The index of the model has more than ${maxBytes} bytes, more than any model needs: open the model without it.`);
    }
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const chunk of out) {
    all.set(chunk, at);
    at += chunk.byteLength;
  }
  return all;
}
