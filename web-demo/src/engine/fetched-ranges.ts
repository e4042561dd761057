/** The ranges of a file that were fetched. */

import type { ByteRange } from "./protocol.js";

export class FetchedRanges {
  /** The ranges, sorted and merged so that none touch. */
  #ranges: ByteRange[] = [];

  add({ begin, end }: ByteRange): void {
    const first = this.#ranges.findIndex((range) => range.end >= begin);
    if (first < 0) return void this.#ranges.push({ begin, end });
    let last = first;
    while (last < this.#ranges.length && this.#ranges[last]!.begin <= end) last += 1;
    const joined = this.#ranges.slice(first, last);
    const merged = { begin: Math.min(begin, joined[0]?.begin ?? begin), end: Math.max(end, joined.at(-1)?.end ?? end) };
    this.#ranges.splice(first, last - first, merged);
  }

  /** The number of bytes that were fetched at least once. */
  get bytes(): number {
    return this.#ranges.reduce((sum, { begin, end }) => sum + end - begin, 0);
  }
}
