/** The head of a safetensors file (docs/formats/z4ai-containers.md 1): length, header, and blanks up to a multiple of eight. */

import { LimitError, UnsupportedError } from "../errors.js";
import type { TensorInfo } from "../tensor.js";

/** The cap of the official reader on the header, in bytes. */
const HEADER_BYTES = 100_000_000;

/** The head as the core's own writer spells it: metadata sorted by key, then the tensors in their order, without holes. */
export function safetensorsHead(metadata: Readonly<Record<string, string>>, tensors: Iterable<TensorInfo>): Uint8Array<ArrayBuffer> {
  const entries: string[] = [];
  const keys = Object.keys(metadata).sort(byCodePoint);
  if (keys.length > 0) entries.push(`"__metadata__":{${keys.map((key) => `${JSON.stringify(key)}:${JSON.stringify(metadata[key])}`).join(",")}}`);
  let position = 0;
  for (const { name, dtype, shape, byteLength } of tensors) {
    if (name === "__metadata__") {
      throw new UnsupportedError("A safetensors file cannot have a tensor called __metadata__.", { tensor: name });
    }
    const end = position + byteLength;
    entries.push(`${JSON.stringify(name)}:{"dtype":"${dtype}","shape":${JSON.stringify(shape)},"data_offsets":[${position},${end}]}`);
    position = end;
  }
  if (!Number.isSafeInteger(position)) throw new LimitError("All tensors together are longer than JavaScript can count.");
  return withLength(new TextEncoder().encode(`{${entries.join(",")}}`));
}

function withLength(json: Uint8Array): Uint8Array<ArrayBuffer> {
  const headerBytes = Math.ceil(json.byteLength / 8) * 8;
  if (headerBytes > HEADER_BYTES) {
    throw new LimitError(`The safetensors header would have ${headerBytes} bytes; readers take at most ${HEADER_BYTES}.`);
  }
  const head = new Uint8Array(8 + headerBytes).fill(0x20);
  new DataView(head.buffer).setBigUint64(0, BigInt(headerBytes), true);
  head.set(json, 8);
  return head;
}

/** The order of UTF-8, which for characters beyond U+FFFF is not that of JavaScript's own comparison. */
function byCodePoint(a: string, b: string): number {
  const [left, right] = [Array.from(a), Array.from(b)];
  const at = left.findIndex((character, i) => character !== right[i]);
  if (at < 0) return left.length - right.length;
  return left[at]!.codePointAt(0)! - (right[at]?.codePointAt(0) ?? -1);
}
