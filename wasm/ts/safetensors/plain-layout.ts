/** The layout of plain files as one safetensors file, like `core/src/model/unpacked.rs`. */

import type { CoreUnpacked } from "../core.js";
import type { TensorInfo } from "../tensor.js";
import { MAX_HEADER_BYTES, PREFIX_BYTES } from "./header.js";
import { refusal } from "./core-error.js";

export class PlainLayout implements CoreUnpacked {
  readonly #head: Uint8Array<ArrayBuffer>;
  readonly #isOriginal: boolean;
  /** The indices of the tensors that are not empty, in order. */
  readonly #order: number[] = [];
  /** The file position at which each tensor of `#order` begins, and the end of the last tensor, in bytes. */
  readonly #begins: number[];

  /** Creates the layout of a file whose tensors follow the `head` in order, without gaps. */
  constructor(head: Uint8Array<ArrayBuffer>, tensors: readonly TensorInfo[], isOriginal: boolean) {
    this.#head = head;
    this.#isOriginal = isOriginal;
    let end = head.byteLength;
    this.#begins = [end];
    for (const [index, { byteLength }] of tensors.entries()) {
      if (byteLength === 0) continue;
      this.#order.push(index);
      this.#begins.push((end += byteLength));
    }
  }

  head(): Uint8Array<ArrayBuffer> {
    return this.#head;
  }

  sizeBytes(): number {
    return this.#begins.at(-1)!;
  }

  isOriginal(): boolean {
    return this.#isOriginal;
  }

  tensors(begin: number, end: number): Float64Array {
    const triples: number[] = [];
    for (let i = this.#firstEndingAfter(begin); i < this.#order.length && this.#begins[i]! < end; i++) {
      const from = this.#begins[i]!;
      const to = this.#begins[i + 1]!;
      triples.push(this.#order[i]!, Math.max(begin, from) - from, Math.min(end, to) - from);
    }
    return Float64Array.from(triples);
  }

  #firstEndingAfter(position: number): number {
    let low = 0;
    for (let high = this.#order.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.#begins[middle + 1]! > position) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  free(): void {}
}

/**
 * Returns the first bytes of a new file, as the official writer formats them: the length of the header, and the header,
 * padded so that the data begin at a multiple of eight. Throws a `LimitError` if the header would be too long.
 */
export function writeHead(metadata: [string, string][], tensors: readonly TensorInfo[]): Uint8Array<ArrayBuffer> {
  const members = metadata.length > 0 ? [`"__metadata__":{${metadata.map(([name, text]) => `${JSON.stringify(name)}:${JSON.stringify(text)}`).join(",")}}`] : [];
  let end = 0;
  for (const { name, dtype, shape, byteLength } of tensors) {
    members.push(`${JSON.stringify(name)}:{"dtype":"${dtype}","shape":[${shape.join(",")}],"data_offsets":[${end},${(end += byteLength)}]}`);
  }
  const json = new TextEncoder().encode(`{${members.join(",")}}`);
  const headerBytes = Math.ceil(json.byteLength / 8) * 8;
  if (headerBytes > MAX_HEADER_BYTES) {
    throw refusal("limit", `the header would have ${headerBytes} bytes, over the cap of ${MAX_HEADER_BYTES} of safetensors: write a sharded checkpoint`);
  }
  const head = new Uint8Array(PREFIX_BYTES + headerBytes).fill(0x20);
  new DataView(head.buffer).setBigUint64(0, BigInt(headerBytes), true);
  head.set(json, PREFIX_BYTES);
  return head;
}
