/** Returns the number of bytes of a .zstn file outside its frames (docs/formats/z4ai-containers.md, 2.1 and 2.2). */

export function framing(file) {
  const headerBytes = 22 + Number(file.readBigUInt64LE(6));
  const indexOffset = Number(file.readBigUInt64LE(file.length - 20));
  // The integrity section is between the index and the footer.
  return { headerBytes, indexBytes: file.length - indexOffset };
}
