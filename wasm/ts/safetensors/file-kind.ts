/** Recognises a file by its first bytes, like `core/src/catalog/file_opener.rs`. */

import { FormatError } from "../errors.js";
import { malformed } from "./core-error.js";

/** The number of bytes that are read first to recognise a file. They contain the whole header of most models. */
export const HEAD_BYTES = 32768;

/** The magic numbers of files and frames that the WebAssembly core reads, or rejects by name. */
const PACKED = /^(Z(STN|4D[ML]|TEN|4AI|SP1|PL1|RT1|ARA)|\x89ZT2|GAUSS00|GGUF|\x93NUM|PK[\x03\x05]|\x80\x02\x8a|\x89HDF|[^]{4}TFL3)/;

/** The ends of names, with the first bytes, of files in formats without a magic number: ONNX and msgpack. */
const NAMED = /\.(onnx\n\x08|msgpack\n[\x80-\x8f\xde\xdf])/i;

/**
 * Returns whether the WebAssembly core reads a file with this head. Rejects if it is neither a packed file nor plain
 * safetensors.
 */
export async function isPacked(head: Uint8Array, name: string): Promise<boolean> {
  const text = String.fromCharCode(...head.subarray(0, 16));
  if (PACKED.test(text) || NAMED.test(`${name}\n${text}`)) return true;
  // In a plain file, JSON follows the header length. A truncated container must not be mistaken for a damaged plain file.
  if (/^[^]{8}($|[{ \t\r\n])/.test(text)) return false;
  throw await described(undefined, head);
}

/**
 * Returns the error for a file with this head. If the head belongs to another format, the error names that format;
 * otherwise it is `cause`, the error that reading it caused. The sentences are loaded on demand.
 */
export async function described(cause: unknown, head: Uint8Array): Promise<unknown> {
  if (cause !== undefined && !(cause instanceof FormatError)) return cause;
  const texts = await import("../not-a-model.js").catch(() => undefined);
  const error = cause ?? malformed("file.recognised", texts?.describeUnknown(head) ?? "unknown format", { offset: 0 });
  const mistake = texts?.describeNonModel(head);
  return mistake === undefined ? error : new FormatError(mistake, {}, { cause: error });
}
