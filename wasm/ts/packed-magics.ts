/** Recognises the files that the WebAssembly core reads. */

/** The magic numbers of files and frames that the WebAssembly core reads, or rejects by name. */
const PACKED = /^(Z(STN|4D[ML]|TEN|4AI|SP1|PL1|RT1|ARA)|\x89ZT2|GAUSS00|GGUF|\x93NUM|PK(\x03\x04|\x05\x06)|\x80\x02\x8a|\x89HDF|[^]{4}TFL3)/;

/** The ends of names, with the first bytes, of files in formats without a magic number: ONNX and msgpack. */
const NAMED = /\.(onnx\n\x08|msgpack\n[\x80-\x8f\xde\xdf])/i;

/** The magic number of tar, and its offset. */
const TAR = "ustar";
const TAR_AT = 257;

/** The signature of HDF5. A user block of 512 bytes, or of a power of two times as many, may precede it. */
const HDF5 = "\x89HDF\r\n\x1a\n";

/**
 * Returns whether the WebAssembly core reads a file that begins with `head`; `undefined` if it is neither a packed file
 * nor plain safetensors.
 */
export function isPacked(head: Uint8Array, name: string): boolean | undefined {
  const text = latin1(head.subarray(0, 48));
  if (PACKED.test(text) || NAMED.test(`${name}\n${text}`)) return true;
  if (latin1(head.subarray(TAR_AT, TAR_AT + TAR.length)) === TAR) return true;
  for (let at = 512; at < head.byteLength; at *= 2) {
    if (latin1(head.subarray(at, at + 8)) === HDF5) return true;
  }
  // A truncated container must not be mistaken for a damaged plain file.
  return /^[^]{8}($|[{ \t\r\n])/.test(text) ? false : undefined;
}

const latin1 = (bytes: Uint8Array): string => String.fromCharCode(...bytes);
