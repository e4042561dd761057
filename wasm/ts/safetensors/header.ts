/**
 * Parses the header of a safetensors file by the official rules (docs/formats/z4ai-containers.md 1), like
 * `core/src/container/safetensors`.
 */

import type { Dtype } from "../dtype.js";
import { JsonError, JsonScanner, ARRAY, OBJECT, decodeUtf8, product } from "./json-scanner.js";
import type { U64 } from "./json-scanner.js";
import { compareText } from "./utf8-order.js";
import { malformed, refusal, tooLarge } from "./core-error.js";

/** The length of the prefix, which contains the length of the header, in bytes. */
export const PREFIX_BYTES = 8;

/** The longest header that the official reader accepts, in bytes. */
export const MAX_HEADER_BYTES = 100_000_000;

/** The number of characters of an unknown dtype's name that an error message contains. */
const UNKNOWN_DTYPE_CHARS = 40;

/** The maximum number of dimensions of a tensor. */
const MAX_DIMENSIONS = 255;

/** The length of an element of each dtype, in bits. */
export const DTYPE_BITS: Readonly<Record<Dtype, number>> = {
  BOOL: 8, F4: 4, F6_E2M3: 6, F6_E3M2: 6, U8: 8, I8: 8, F8_E5M2: 8, F8_E4M3: 8, F8_E8M0: 8, F8_E4M3FNUZ: 8, F8_E5M2FNUZ: 8,
  I16: 16, U16: 16, F16: 16, BF16: 16, I32: 32, U32: 32, F32: 32, C64: 64, F64: 64, I64: 64, U64: 64,
};

/** All dtypes, in the official order. */
export const DTYPES_IN_ORDER = Object.keys(DTYPE_BITS) as readonly Dtype[];

/** A tensor that a header describes. */
export interface HeaderTensor {
  name: string;
  dtype: Dtype;
  shape: readonly number[];
  /** The range of the tensor in the data, in bytes; `end` is exclusive. */
  begin: number;
  end: number;
}

/** The parsed contents of a header. */
export interface Header {
  /** The tensors in the order of their data. Empty tensors at the same position are in the order of the header. */
  tensors: HeaderTensor[];
  /** The metadata, sorted by name. */
  metadata: [name: string, text: string][];
  /** The tensors that cannot be read, by name, with the reason. */
  refused: Map<string, string>;
}

/**
 * Returns the length of the header, in bytes, from the first bytes of a file. Throws a `FormatError` if it is above the
 * limit or exceeds the file.
 */
export function headerBytes(head: Uint8Array, sizeBytes: number): number {
  const view = new DataView(head.buffer, head.byteOffset, PREFIX_BYTES);
  const length = view.getBigUint64(0, true);
  if (length > MAX_HEADER_BYTES) {
    throw malformed("safetensors.header_cap", `a header of ${length} bytes is over the cap of ${MAX_HEADER_BYTES}`, { offset: 0 });
  }
  if (length > sizeBytes - PREFIX_BYTES) {
    throw malformed("safetensors.header_length", `a header of ${length} bytes reaches past the end of the file`, { offset: 0 });
  }
  return Number(length);
}

/**
 * Parses a header, which `dataBytes` bytes of data follow. Throws a `FormatError` if the header breaks a rule, and a
 * `LimitError` if a tensor has too many dimensions or a size exceeds 2^53.
 */
export function parseHeader(json: Uint8Array, dataBytes: number): Header {
  const { entries, metadata } = parseDocument(json);
  const sorted = [...entries.values()].sort((a, b) => compare(a.begin, b.begin) || compare(a.end, b.end));
  let covered: U64 = 0;
  for (const entry of sorted) {
    checkEntry(entry, covered);
    covered = entry.end;
  }
  if (covered > dataBytes) {
    throw malformed("safetensors.truncated", `the tensors cover ${covered} bytes of data, but the file has only ${dataBytes}: it was cut off`);
  }
  if (covered < dataBytes) throw malformed("safetensors.coverage", `the tensors cover ${covered} bytes of data, the file has ${dataBytes}`);
  const excess = sorted.find(({ dtype, shape }) => isKnown(dtype) && shape.length > MAX_DIMENSIONS);
  if (excess) {
    throw refusal("limit", `its shape has over ${MAX_DIMENSIONS} dimensions, the most that are read`, { rule: "tensor.dimensions", tensor: excess.name });
  }
  const refused = new Map<string, string>();
  const tensors: HeaderTensor[] = [];
  for (const entry of sorted) {
    const { name, dtype, shape } = entry;
    if (!isKnown(dtype)) refused.set(name, `its dtype \`${dtype.slice(0, UNKNOWN_DTYPE_CHARS)}\` is unknown to this version: use a newer one`);
    else if (!shape.every(Number.isSafeInteger)) throw tooLarge(name);
    // The last end equals `dataBytes`, so all offsets are numbers.
    else tensors.push(entry as HeaderTensor);
  }
  return { tensors, metadata: [...metadata].sort(([a], [b]) => compareText(a, b)), refused };
}

/** The entry of a tensor in the header, before the values are checked. */
interface Entry {
  name: string;
  /** The name of the dtype, which may be an unknown one. */
  dtype: string;
  /** The leading dimensions, at most one more than the maximum, because a header can list 45 million dimensions. */
  shape: U64[];
  /** The product of all dimensions, from left to right; `undefined` if a partial product exceeds 64 bits. */
  elements: U64 | undefined;
  begin: U64;
  end: U64;
}

interface Document {
  /** The last entry of each name, in the order of first appearance. */
  entries: Map<string, Entry>;
  metadata: Map<string, string>;
}

function parseDocument(json: Uint8Array): Document {
  let text: string;
  try {
    text = decodeUtf8(json, true);
  } catch {
    throw malformed("safetensors.utf8", "the header is not UTF-8 text", { offset: PREFIX_BYTES + validUtf8Bytes(json) });
  }
  try {
    return readDocument(new JsonScanner(json, text));
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw malformed("safetensors.json", `the header is not valid safetensors: ${error.message}`);
  }
}

function readDocument(scanner: JsonScanner): Document {
  const entries = new Map<string, Entry>();
  const metadata = new Map<string, string>();
  const readEntry = entryReader(scanner);
  let hasMetadata = false;
  scanner.object((name) => {
    if (name !== "__metadata__") return void entries.set(name, readEntry(name));
    if (hasMetadata) scanner.fail("duplicate field `__metadata__`");
    hasMetadata = true;
    if (!scanner.null()) scanner.object((key) => metadata.set(key, scanner.string()));
  });
  scanner.end();
  return { entries, metadata };
}

const FIELDS = ["dtype", "shape", "data_offsets"];

/**
 * Returns the function that reads an entry: an object, or an array of the fields in this order, which the official reader
 * accepts as well. All entries share its functions: creating them anew would slow down the headers of large models.
 */
function entryReader(scanner: JsonScanner): (name: string) => Entry {
  let entry: Entry;
  /** The bits of the fields that the entry has. */
  let found = 0;
  const shape: U64[] = [];
  const readDimension = () => {
    const dimension = scanner.u64();
    entry.elements = product(entry.elements, dimension);
    if (shape.length <= MAX_DIMENSIONS) shape.push(dimension);
  };
  const readShape = () => {
    shape.length = 0;
    scanner.array(readDimension);
    // The copy takes less memory than an array that has grown.
    entry.shape = shape.slice();
  };
  const readBegin = () => (entry.begin = scanner.u64());
  const readEnd = () => (entry.end = scanner.u64());
  const readers = [() => (entry.dtype = readDtype(scanner)), readShape, () => scanner.tuple(readBegin, readEnd)];
  const readField = (field: string) => {
    const i = FIELDS.indexOf(field);
    if (i < 0) return scanner.skip(2);
    if (found & (1 << i)) scanner.fail(`duplicate field \`${field}\``);
    found |= 1 << i;
    readers[i]!();
  };
  return (name) => {
    entry = { name, dtype: "", shape: [], begin: 0, end: 0, elements: 1 };
    if (scanner.peek() === ARRAY) scanner.tuple(...readers);
    else {
      found = 0;
      scanner.object(readField);
      FIELDS.forEach((field, i) => found & (1 << i) || scanner.fail(`missing field \`${field}\``));
    }
    return entry;
  };
}

const isKnown = (dtype: string): dtype is Dtype => Object.hasOwn(DTYPE_BITS, dtype);

/** Reads a dtype: its name, or an object that maps the name to `null`, which the official reader accepts as well. */
function readDtype(scanner: JsonScanner): string {
  if (scanner.peek() !== OBJECT) return scanner.string();
  scanner.expect("{");
  const dtype = scanner.string();
  scanner.expect(":");
  if (!scanner.null()) scanner.fail("expected `null`");
  scanner.expect("}");
  return dtype;
}

/** Checks a tensor whose bytes must begin at `expected`, where the previous tensor ends. */
function checkEntry({ name: tensor, dtype, elements, begin, end }: Entry, expected: U64): void {
  if (begin !== expected || end < begin) {
    throw malformed("safetensors.offsets", `data offsets [${begin}, ${end}) are not a range that begins at ${expected}`, { tensor });
  }
  if (!isKnown(dtype)) return;
  const bits = product(elements, DTYPE_BITS[dtype]);
  if (bits === undefined) throw malformed("safetensors.overflow", "the size computed from shape and dtype exceeds 64 bits", { tensor });
  // Below 2^53, both sides are computed exactly.
  if (Number.isSafeInteger(end) && bits === 8 * (Number(end) - Number(begin))) return;
  const exact = BigInt(bits);
  const length = BigInt(end) - BigInt(begin);
  if (exact % 8n) throw malformed("safetensors.sub_byte", `${elements} elements of ${dtype} do not fill whole bytes`, { tensor });
  if (exact !== 8n * length) {
    throw malformed("safetensors.size", `shape and dtype make ${exact / 8n} bytes, the data offsets ${length}`, { tensor });
  }
}

function compare(a: U64, b: U64): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Returns the number of valid bytes before the first invalid character. The bytes must contain one. */
function validUtf8Bytes(bytes: Uint8Array): number {
  const replaced = new TextEncoder().encode(decodeUtf8(bytes, false));
  let valid = replaced.findIndex((byte, i) => byte !== bytes[i]);
  // An invalid character may begin with the same bytes as its replacement, U+FFFD.
  while ((replaced[valid]! & 0xc0) === 0x80) valid--;
  return valid;
}
