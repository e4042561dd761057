/** Short digests of tensors (docs/formats/zstn-integrity.md). */

/** The length of a short digest, in bytes. */
export const SHORT_DIGEST_BYTES = 16;

/** Returns the short digest that begins at `offset`, in 32 hexadecimal digits. */
export function shortDigest({ buffer, byteOffset }: Uint8Array, offset: number): string {
  const view = new DataView(buffer, byteOffset + offset, SHORT_DIGEST_BYTES);
  return [0, 8].map((at) => view.getBigUint64(at).toString(16).padStart(16, "0")).join("");
}
