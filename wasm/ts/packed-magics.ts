/** Recognises the files that the WebAssembly core reads. */

/** The magic numbers of files and frames that the WebAssembly core reads, or rejects by name. */
const PACKED = /^(Z(STN|4D[ML]|TEN|4AI|SP1|PL1|RT1|ARA)|\x89ZT2|GAUSS00|GGUF|\x93NUM|PK(\x03\x04|\x05\x06)|\x80\x02\x8a|\x89HDF|[^]{4}TFL3)/;

/** The ends of names, with the first bytes, of files in formats without a magic number: ONNX and msgpack. */
const NAMED = /\.(onnx\n\x08|msgpack\n[\x80-\x8f\xde\xdf])/i;

/**
 * Returns whether the WebAssembly core reads a file that begins with `text`, one character for each byte; `undefined`
 * if it is neither a packed file nor plain safetensors.
 */
export function isPacked(text: string, name: string): boolean | undefined {
  if (PACKED.test(text) || NAMED.test(`${name}\n${text}`)) return true;
  // A truncated container must not be mistaken for a damaged plain file.
  return /^[^]{8}($|[{ \t\r\n])/.test(text) ? false : undefined;
}
