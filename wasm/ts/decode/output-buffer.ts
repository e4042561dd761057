/** Checks the caller's buffers that tensors are decoded into. */

import { bytesPerElement } from "../dtype.js";
import { InvalidInputError } from "../errors.js";
import type { TensorInfo } from "../tensor.js";

/**
 * Returns the bytes of `into` that the tensor will fill. Throws an `InvalidInputError` if the buffer is too short or
 * not aligned for the tensor's elements.
 */
export function outputView({ name, dtype, byteLength }: TensorInfo, into: ArrayBufferView<ArrayBuffer> | ArrayBuffer): Uint8Array<ArrayBuffer> {
  const bytes = ArrayBuffer.isView(into) ? new Uint8Array(into.buffer, into.byteOffset, into.byteLength) : new Uint8Array(into);
  if (bytes.byteLength < byteLength) {
    throw new InvalidInputError(`The tensor ${name} has ${byteLength} bytes; \`into\` has ${bytes.byteLength}.`);
  }
  const multiple = bytesPerElement(dtype, name);
  if (bytes.byteOffset % multiple !== 0) {
    throw new InvalidInputError(`\`into\` begins at byte ${bytes.byteOffset} of its buffer; elements of ${dtype} need a multiple of ${multiple}.`);
  }
  return bytes.subarray(0, byteLength);
}
