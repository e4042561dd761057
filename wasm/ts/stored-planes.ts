/** Parses the sizes of planes that the WebAssembly modules return. */

import type { StoredPlane } from "./tensor.js";

/** Parses one line for each plane: its name, its coding method, and its decoded and stored lengths, with tabs between them. */
export function parsePlanes(lines: string): StoredPlane[] {
  return lines.trimEnd().split("\n").map((line) => {
    const [name, method, byteLength, storedLength] = line.split("\t") as [string, string, string, string];
    return { name, method, byteLength: Number(byteLength), storedLength: Number(storedLength) };
  });
}
