/** The seam to the WebAssembly core that packs and decodes single frames; a page that only reads never loads it. */

import { lazyModule } from "./module.js";
import type { CoreInput, Glue, Start } from "./module.js";
import type { PackedTensor } from "./pack.js";

/** A safetensors file on its way to a container. Does no I/O. */
export interface CorePacking {
  /** [offset, length] of the range wanted next, which may be empty; nothing when the container is complete. */
  needs(): Float64Array | undefined;
  /** Name of the tensor that range belongs to. */
  tensor(): string | undefined;
  /** Takes the bytes of that range; gives the next bytes of the container, perhaps none. */
  supply(bytes: Uint8Array): Uint8Array<ArrayBuffer>;
  /** At the end: whether single tensors can be read from the container. */
  isIndexed(): boolean;
  /** At the end: all tensors in data order. */
  packed(): PackedTensor[];
  free(): void;
}

/** The core, loaded. */
export interface Coder {
  readonly Packing: { new (sizeBytes: number, effort: string, allowTruncated: boolean): CorePacking };
  decompress(frame: Uint8Array, limitBytes: number): Uint8Array<ArrayBuffer>;
  compress(bytes: Uint8Array, dtype: string | undefined, effort: string): Uint8Array<ArrayBuffer>;
}

/** Loads the core once; a failed attempt may be repeated. */
export function lazyCoder(start: Start): (input?: CoreInput) => Promise<Coder> {
  const glue = (): Promise<Glue> => import("./core/zstn_coder.js");
  return lazyModule({ file: "zstn_coder_bg.wasm", loader: "initCoder", glue }, start);
}
