/** Counts distinct values, up to a limit. */

import { MAX_DISTINCT } from "./report.js";

/** The number of slots of the hash table, as a power of two. At most a quarter of them is used. */
const SLOT_BITS = 18;
const SLOTS = 1 << SLOT_BITS;

export class DistinctValues {
  /** The number of finite values that were added; `nonFinite` is the number of the others. */
  counted = 0;
  nonFinite = 0;
  /** The number of distinct finite values. Counting stops at one more than `MAX_DISTINCT`. */
  distinct = 0;
  min = Number.POSITIVE_INFINITY;
  max = Number.NEGATIVE_INFINITY;
  readonly #slots = new Float64Array(SLOTS);
  readonly #isUsed = new Uint8Array(SLOTS);
  readonly #value = new Float64Array(1);
  readonly #words = new Uint32Array(this.#value.buffer);
  /** Random multipliers, so that no file can contain values that all have the same slot. */
  readonly #factors = [oddNumber(), oddNumber()] as const;
  /** The mantissa bits that occur, in the lower and the upper word of a 64-bit float. */
  #lowBits = 0;
  #highBits = 0;

  /** Adds values until there are too many distinct ones. −0 counts as 0. */
  add(numbers: ArrayLike<number>, end = numbers.length): void {
    const [value, words, slots, isUsed, [first, second]] = [this.#value, this.#words, this.#slots, this.#isUsed, this.#factors];
    let [counted, previous, i] = [0, Number.NaN, 0];
    for (; i < end && this.distinct <= MAX_DISTINCT; i++) {
      const number = numbers[i]! + 0;
      if (number - number !== 0) continue;
      counted += 1;
      if (number === previous) continue;
      previous = number;
      value[0] = number;
      let slot = Math.imul(words[0]! ^ Math.imul(words[1]!, first), second) >>> (32 - SLOT_BITS);
      while (isUsed[slot] === 1 && slots[slot] !== number) slot = (slot + 1) & (SLOTS - 1);
      if (isUsed[slot] === 1) continue;
      isUsed[slot] = 1;
      slots[slot] = number;
      this.#addDistinct(number, words[0]!, words[1]!);
    }
    this.counted += counted;
    this.nonFinite += i - counted;
  }

  #addDistinct(number: number, low: number, high: number): void {
    this.distinct += 1;
    this.min = Math.min(this.min, number);
    this.max = Math.max(this.max, number);
    if (number === 0) return;
    this.#lowBits |= low;
    this.#highBits |= high & 0xfffff;
  }

  /** The largest number of significant bits of a value: 53 minus the trailing zeros that all mantissas share. */
  get significantBits(): number {
    if (this.#lowBits !== 0) return 53 - trailingZeros(this.#lowBits);
    return this.#highBits === 0 ? 1 : 21 - trailingZeros(this.#highBits);
  }
}

const oddNumber = (): number => Math.floor(Math.random() * 2 ** 32) | 1;

const trailingZeros = (bits: number): number => 31 - Math.clz32(bits & -bits);
