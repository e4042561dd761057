/** Detection of Deno, which uses the entry for Node. */

/** Returns whether this code runs in Deno. */
export function isDeno(): boolean {
  return "Deno" in globalThis;
}
