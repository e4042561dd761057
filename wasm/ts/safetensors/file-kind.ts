/** Recognising a file by its first bytes, like `core/src/catalog/file_opener.rs`. */

import { FormatError } from "../errors.js";
import { malformed } from "./refusal.js";

/** How many of the first bytes of a file are read to recognise it. They hold the header of most models. */
export const HEAD_BYTES = 32768;

/** What files and frames begin with that the WebAssembly core reads, or refuses by name. */
const PACKED = /^(ZSTN|Z4D[ML]|ZTEN|\x89ZT2\r\n\x1a\n|GAUSS00|Z4AI|ZSP1|ZPL1|ZRT1|ZARA)/;

/** Returns whether a file with this head is one for the WebAssembly core. Throws if it is neither that nor plain safetensors. */
export async function isPacked(head: Uint8Array): Promise<boolean> {
  const text = String.fromCharCode(...head.subarray(0, 16));
  if (PACKED.test(text)) return true;
  // After the length of its header, a plain file has JSON. A truncated container must not pass for a damaged one.
  if (!text.startsWith("GGUF") && /^[^]{8}($|[{ \t\r\n])/.test(text)) return false;
  throw await described(undefined, head);
}

/**
 * Returns the error of a file with this head, which may be one of another format: `cause` says what is wrong with it
 * otherwise. The sentences are loaded when they are needed.
 */
export async function described(cause: unknown, head: Uint8Array): Promise<unknown> {
  if (cause !== undefined && !(cause instanceof FormatError)) return cause;
  const texts = await import("../not-a-model.js").catch(() => undefined);
  const error = cause ?? malformed("file.recognised", texts?.describeUnknown(head) ?? "this is no model file", { offset: 0 });
  const mistake = texts?.describeNonModel(head);
  return mistake === undefined ? error : new FormatError(mistake, {}, { cause: error });
}
