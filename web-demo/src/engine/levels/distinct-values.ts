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
  #minPower = 2048;
  #maxPower = 0;

  get isFull(): boolean {
    return this.distinct > MAX_DISTINCT;
  }

  /** Adds values until there are too many distinct ones. −0 counts as 0. */
  add(numbers: ArrayLike<number>, end = numbers.length): void {
    const [value, words, [first, second]] = [this.#value, this.#words, this.#factors];
    for (let i = 0; i < end && !this.isFull; i++) {
      value[0] = numbers[i]! + 0;
      const number = value[0];
      if (number - number !== 0) {
        this.nonFinite += 1;
        continue;
      }
      this.counted += 1;
      const [low, high] = [words[0]!, words[1]!];
      let slot = Math.imul(low ^ Math.imul(high, first), second) >>> (32 - SLOT_BITS);
      while (this.#isUsed[slot] === 1 && this.#slots[slot] !== number) slot = (slot + 1) & (SLOTS - 1);
      if (this.#isUsed[slot] === 1) continue;
      this.#isUsed[slot] = 1;
      this.#slots[slot] = number;
      this.distinct += 1;
      if (number < this.min) this.min = number;
      if (number > this.max) this.max = number;
      if (number === 0) continue;
      this.#lowBits |= low;
      this.#highBits |= high & 0xfffff;
      const power = (high >>> 20) & 2047;
      this.#minPower = Math.min(this.#minPower, power);
      this.#maxPower = Math.max(this.#maxPower, power);
    }
  }

  /** The largest number of significant bits of a value: 53 minus the trailing zeros that all mantissas share. */
  get significantBits(): number {
    if (this.#lowBits !== 0) return 53 - trailingZeros(this.#lowBits);
    return this.#highBits === 0 ? 1 : 21 - trailingZeros(this.#highBits);
  }

  /** The number of powers of two from the smallest to the largest magnitude. */
  get octaves(): number {
    return Math.max(0, this.#maxPower - this.#minPower + 1);
  }
}

const oddNumber = (): number => Math.floor(Math.random() * 2 ** 32) | 1;

const trailingZeros = (bits: number): number => 31 - Math.clz32(bits & -bits);
