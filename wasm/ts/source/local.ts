/** Sources for inputs that need no request. */

import { BlobSource } from "./blob.js";
import { BytesSource } from "./bytes.js";
import type { Source } from "./source.js";

/** Returns `input` as a source; `undefined` if its type is not supported. */
export function localSource(input: Blob | ArrayBuffer | Uint8Array | Source): Source | undefined {
  if (input instanceof Blob) return new BlobSource(input);
  if (input instanceof Uint8Array) return new BytesSource(input);
  if (input instanceof ArrayBuffer) return new BytesSource(new Uint8Array(input));
  return typeof input?.size === "function" && typeof input.read === "function" ? input : undefined;
}
