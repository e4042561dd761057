/**
 * Reads the first frame of a packed file ahead, together with its index. The frame holds the first bytes of the original
 * with most of its metadata, if that is no safetensors file (docs/formats/zstn-virtual-header.md 2).
 */

import type { ReadOptions, Source } from "./source/source.js";

/** The number of bytes that are read ahead. The stored text of a long tokenizer takes more; its rest is read later. */
const MAX_BYTES = 64 << 10;

/** The length of a ZSTN file's prefix without the header, in bytes, and the position in it of the header's length. */
const PREFIX_BYTES = 22;
const HEADER_LENGTH_AT = 6;

/** The most bytes that a frame has in addition to those of an entry that it cannot make shorter. */
const FRAME_BYTES = 512;

/** Matches the place of the first entry. The text of `__metadata__` does not match, because its quotes are escaped. */
const FIRST_ENTRY = /"data_offsets":\[0,(\d+)\]/;

/** Matches the formats whose metadata are not read: packed as bytes, or without metadata. */
const WITHOUT_METADATA = /\\"kind\\":\\"(bytes|np[yz])\\"/;

/**
 * Returns `source`, the file that begins with `head`, with reads of its first frame answered from bytes that are
 * requested together with the first other read. Reading them ahead aborts with `signal`.
 */
export function withFirstFrame(source: Source, sizeBytes: number, head: Uint8Array, signal: AbortSignal | undefined): Source {
  const isOriginal = String.fromCharCode(...head.subarray(0, 4)) === "ZSTN" && (head[5]! & 8) !== 0;
  if (!isOriginal) return source;
  const text = new TextDecoder("latin1").decode(head);
  const [, entryBytes] = FIRST_ENTRY.exec(text) ?? [];
  if (entryBytes === undefined || WITHOUT_METADATA.test(text)) return source;
  const { buffer, byteOffset, byteLength } = head;
  const begin = PREFIX_BYTES + Number(new DataView(buffer, byteOffset, byteLength).getBigUint64(HEADER_LENGTH_AT, true));
  const end = Math.min(begin + Math.min(Number(entryBytes) + FRAME_BYTES, MAX_BYTES), sizeBytes);
  if (!(begin < end)) return source;
  const missingFrom = Math.max(begin, byteLength);
  let rest: Promise<Uint8Array | undefined> | undefined;
  const readAhead = async ({ onOtherVersion }: ReadOptions): Promise<Uint8Array | undefined> => {
    if (missingFrom >= end) return new Uint8Array(0);
    const options = { ...(signal && { signal }), ...(onOtherVersion && { onOtherVersion }) };
    // If this fails, the frame is read when it is needed, and that read reports the failure.
    return source.read(missingFrom, end - missingFrom, options).catch(() => undefined);
  };
  return {
    size: (options) => source.size(options),
    async read(offset, length, options = {}) {
      const ahead = (rest ??= readAhead(options));
      const last = offset + length;
      const have = offset < begin || offset >= end ? undefined : await ahead;
      if (!have) return source.read(offset, length, options);
      const bytes = new Uint8Array(length);
      bytes.set(head.subarray(offset, Math.min(last, end)));
      if (last > missingFrom) bytes.set(have.subarray(Math.max(offset - missingFrom, 0), Math.min(last, end) - missingFrom), Math.max(missingFrom - offset, 0));
      options.onBytes?.(Math.min(last, end) - offset);
      if (last > end) bytes.set(await source.read(end, last - end, options), end - offset);
      return bytes;
    },
    get pinned() {
      return source.pinned;
    },
  };
}
