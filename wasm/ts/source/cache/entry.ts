/** The file format of a stored cache entry: a header with the name and the digest of the bytes, then the bytes. */

/** Length of the header of every entry, in bytes. */
export const ENTRY_HEADER_BYTES = 192;

/** Returns the file name of the entry for a range of the file that `keyHash` identifies; `offset` and `length` are in bytes. */
export function entryName(keyHash: string, offset: number, length: number): string {
  return `${keyHash}-${offset}-${length}`;
}

/** Returns whether a file of this name can be an entry. Other programs may share the folder. */
export function isEntryName(name: string): boolean {
  return /^[0-9a-f]{32}-\d+-\d+$/.test(name);
}

/** Returns the hash of a key that entry names contain: the first 128 bits of its SHA-256. */
export async function keyHash(key: string): Promise<string> {
  return (await sha256(new TextEncoder().encode(key))).slice(0, 32);
}

/** Returns the entry header for these bytes. */
export async function entryHeader(name: string, bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  return header(name, await sha256(bytes));
}

/** Returns the bytes of an entry; `undefined` if the entry is not exactly as it was stored under this name. */
export async function entryBytes(name: string, entry: Uint8Array): Promise<Uint8Array | undefined> {
  const bytes = entry.subarray(ENTRY_HEADER_BYTES);
  const expected = header(name, await sha256(bytes));
  const isIntact = entry.byteLength >= ENTRY_HEADER_BYTES && expected.every((byte, i) => entry[i] === byte);
  return isIntact && name.endsWith(`-${bytes.byteLength}`) ? bytes : undefined;
}

function header(name: string, digest: string): Uint8Array<ArrayBuffer> {
  const text = `zstn cache entry, version 1\n${name}\n${digest}\n`;
  return new TextEncoder().encode(text.padEnd(ENTRY_HEADER_BYTES));
}

async function sha256(bytes: Uint8Array): Promise<string> {
  // The cast is safe because no source returns shared memory, which this call would reject.
  const digest = await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
