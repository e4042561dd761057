/** Tracks which arrays may be transferred to a worker, because nothing else refers to their memory. */

const transferable = new WeakSet<Uint8Array>();

/** Marks `bytes` as owned by the code that receives them. A view (`subarray`) of marked bytes is not marked. */
export function markTransferable<T extends Uint8Array>(bytes: T): T {
  if (bytes.byteLength === bytes.buffer.byteLength) transferable.add(bytes);
  return bytes;
}

/** Returns the same bytes in memory that may be transferred: the array itself if it is marked, otherwise a copy. */
export function toTransferable(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return transferable.has(bytes) && bytes.buffer instanceof ArrayBuffer ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes);
}
