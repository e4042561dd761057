/** Orders texts by their UTF-8 bytes, like the Rust core. */

/**
 * Compares two texts by code points. The operators of JavaScript compare UTF-16 units, which would order surrogates
 * before some other characters.
 */
export function compareText(a: string, b: string): number {
  for (let i = 0; i < a.length && i < b.length; i++) {
    const difference = rank(a.charCodeAt(i)) - rank(b.charCodeAt(i));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Returns a rank for a UTF-16 unit that orders surrogates after all other units. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit;
}
