/** Bytes that nobody else has, so that their memory may be handed on. */

const given = new WeakSet<Uint8Array>();

/** Says that whoever gets `bytes` alone has them. A view of them (`subarray`) says nothing of the kind. */
export function give<T extends Uint8Array>(bytes: T): T {
  if (bytes.byteLength === bytes.buffer.byteLength) given.add(bytes);
  return bytes;
}

/** The same bytes in memory that is the caller's alone: a copy, unless they were given. */
export function own(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return given.has(bytes) && bytes.buffer instanceof ArrayBuffer ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes);
}
