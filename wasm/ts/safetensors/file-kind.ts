/** Recognises a file by its first bytes, like `core/src/catalog/file_opener.rs`. */

import { loadCoreFiles } from "../core-files-loader.js";
import { FormatError } from "../errors.js";
import { malformed } from "./core-error.js";

/**
 * Returns whether the WebAssembly core reads a file with this head. Rejects if it is neither a packed file nor plain
 * safetensors. The magic numbers of most formats are loaded on demand.
 */
export async function isPacked(head: Uint8Array, name: string): Promise<boolean> {
  const text = String.fromCharCode(...head.subarray(0, 16));
  if (/^Z(STN|4DM)/.test(text)) return true;
  // In a plain file, JSON follows the header length, which has 32 bits.
  const packed = /^[^]{4}\0{4}($|[{ \t\r\n])/.test(text) ? false : await (await loadCoreFiles()).isPacked(head, name);
  if (packed !== undefined) return packed;
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
