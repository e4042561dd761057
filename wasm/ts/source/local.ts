/** Sources for inputs that need no request. */

import { BlobSource } from "./blob.js";
import { BytesSource } from "./bytes.js";
import type { Sliceable, Source } from "./source.js";

/** Returns `input` as a source; `undefined` if its type is not supported. */
export function localSource(input: Blob | ArrayBuffer | Uint8Array | Sliceable | Source): Source | undefined {
  if (input instanceof Blob) return new BlobSource(input);
  if (input instanceof Uint8Array) return new BytesSource(input);
  if (input instanceof ArrayBuffer) return new BytesSource(new Uint8Array(input));
  const { byteLength, slice, size, read } = Object(input) as Partial<Sliceable & Source>;
  if (size && read) return input as Source;
  // The positions of a typed array count elements.
  return byteLength! >= 0 && slice && !ArrayBuffer.isView(input) ? sliceSource(input as Sliceable) : undefined;
}

function sliceSource(input: Sliceable): Source {
  return {
    size: () => input.byteLength,
    async read(offset, length) {
      const bytes = await input.slice(offset, offset + length);
      return bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes;
    },
  };
}
