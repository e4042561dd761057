/** Deno, which runs the entry for Node. */

/** Returns whether this runs in Deno. */
export function isDeno(): boolean {
  return "Deno" in globalThis;
}
