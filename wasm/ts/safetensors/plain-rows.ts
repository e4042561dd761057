/** Some rows of an uncompressed tensor, like `core/src/model/rows.rs`. */

import type { CoreRows } from "../core.js";
import type { TensorInfo } from "../tensor.js";
import { DTYPE_BITS } from "./header.js";
import { refusal } from "./refusal.js";

export class PlainRows implements CoreRows {
  readonly #info: TensorInfo;
  /** The range in the tensor, in bytes. */
  readonly #begin: number;
  readonly #end: number;

  /** Throws for rows that do not begin and end on a byte. The tensor has the rows. */
  constructor(info: TensorInfo, begin: number, end: number) {
    this.#info = info;
    const [, ...row] = info.shape;
    // Of no rows the length may be beyond what numbers hold.
    const rowBits = begin === end ? 0 : row.reduce((product, dimension) => product * dimension, DTYPE_BITS[info.dtype]);
    this.#begin = (begin * rowBits) / 8;
    this.#end = (end * rowBits) / 8;
    if (!Number.isInteger(this.#begin) || !Number.isInteger(this.#end)) {
      throw refusal("invalid_input", `rows ${begin}..${end} of ${rowBits} bits each do not begin and end on a byte`, { tensor: info.name });
    }
  }

  isWhole(): boolean {
    return this.#begin === 0 && this.#end === this.#info.byteLength;
  }

  span(): Float64Array {
    return Float64Array.of(this.#begin, this.#end);
  }

  ranges(): Float64Array {
    const { file, offset } = this.#info.parts[0]!;
    const length = this.#end - this.#begin;
    return length > 0 && !this.isWhole() ? Float64Array.of(file, offset + this.#begin, length) : new Float64Array(0);
  }

  /** Returns a copy: the bytes of a source may belong to a cache, or to the caller. */
  decode([bytes]: Uint8Array[]): Uint8Array<ArrayBuffer> {
    return new Uint8Array(bytes ?? []);
  }

  free(): void {}
}
