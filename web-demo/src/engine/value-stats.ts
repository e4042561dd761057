/** Statistics of values in one pass, and a table of counts for all histograms. */

import type { Exponents, Histogram } from "./protocol.js";
import type { FloatBits, RowBlock } from "./matrix-reader.js";

/** Values are counted by the upper half of the 32-bit float: sign, exponent and seven bits of mantissa. */
const KEYS = 1 << 16;
const NEGATIVE_ZERO = KEYS / 2;
const LINEAR_BINS = 96;
/** The fraction of values that may be outside the histogram. Otherwise an outlier would squeeze the rest into one bar. */
const OUTSIDE_SHARE = 5e-5;

export class ValueStats {
  count = 0;
  finite = 0;
  zeros = 0;
  nans = 0;
  infinities = 0;
  min = Number.POSITIVE_INFINITY;
  max = Number.NEGATIVE_INFINITY;
  #mean = 0;
  /** Sum of the squares of the distances from the mean. */
  #spread = 0;
  #negativeZeros = 0;
  readonly #keys = new Float64Array(KEYS);
  /** Exponents of 64-bit floats, which a 32-bit float does not have. */
  readonly #wideExponents = new Float64Array(1 << 11);
  readonly #one = new Float32Array(1);
  readonly #oneBits = new Uint32Array(this.#one.buffer);

  add({ numbers }: RowBlock): void {
    let [finite, sum, min, max] = [0, 0, this.min, this.max];
    const keys = this.#keys;
    const [one, oneBits] = [this.#one, this.#oneBits];
    for (let i = 0; i < numbers.length; i++) {
      const value = numbers[i]!;
      one[0] = value;
      keys[oneBits[0]! >>> 16]! += 1;
      if (value - value !== 0) {
        if (Number.isNaN(value)) this.nans += 1;
        else this.infinities += 1;
        continue;
      }
      finite += 1;
      sum += value;
      if (value === 0) {
        this.zeros += 1;
        if (oneBits[0] !== 0) this.#negativeZeros += 1;
      }
      if (value < min) min = value;
      if (value > max) max = value;
    }
    this.count += numbers.length;
    if (numbers instanceof Float64Array) {
      const halves = new Uint32Array(numbers.buffer, numbers.byteOffset, 2 * numbers.length);
      for (let i = 1; i < halves.length; i += 2) this.#wideExponents[(halves[i]! >>> 20) & 0x7ff]! += 1;
    }
    [this.min, this.max] = [min, max];
    if (finite > 0) this.#merge(finite, sum / finite, numbers);
  }

  get mean(): number {
    return this.finite > 0 ? this.#mean : Number.NaN;
  }

  get standardDeviation(): number {
    return this.finite > 0 ? Math.sqrt(this.#spread / this.finite) : Number.NaN;
  }

  /** Root of the sum of all squares. */
  get norm(): number {
    return Math.sqrt(this.#spread + this.finite * this.#mean ** 2);
  }

  /** Returns the histogram of the values other than zero, with bins of equal width over the range of nearly all of them. */
  histogram(): Histogram {
    const [low, high] = this.#reach();
    const width = (high - low) / LINEAR_BINS || 1;
    const counts = new Float64Array(LINEAR_BINS);
    let outside = 0;
    for (let key = 0; key < KEYS; key++) {
      const count = this.#nonZero(key);
      if (count === 0) continue;
      const [from, to] = keyRange(key);
      if (!Number.isFinite(from)) continue;
      // A key is a range of values, which are assumed to be uniform.
      const [begin, end] = [Math.max(from, this.min), Math.max(Math.min(to, this.max), Math.max(from, this.min))];
      outside += spread(counts, (begin - low) / width, (end - low) / width, count);
    }
    return { edges: Float64Array.from(counts, (_, i) => low + i * width), counts, outside };
  }

  /** Returns the histogram of |value| without zeros, with a bin for each power of two. */
  magnitudes(): Histogram {
    const byPower = new Float64Array(256);
    for (let key = 0; key < KEYS; key++) byPower[(key >> 7) & 255]! += this.#keys[key]!;
    const first = Math.max(1, byPower.findIndex((count, power) => power > 0 && count > 0));
    const last = Math.max(first, byPower.subarray(0, 255).findLastIndex((count) => count > 0));
    const edges = Float64Array.from({ length: last - first + 1 }, (_, i) => first + i - 127);
    return { edges, counts: byPower.slice(first, last + 1), outside: 0 };
  }

  /** Returns the histogram of the stored exponents. */
  exponents({ exponentBits, bias, allBits }: FloatBits): Exponents {
    const counts = allBits === 64 ? this.#wideExponents.slice() : new Float64Array(1 << exponentBits);
    for (let key = 0; key < (allBits === 64 ? 0 : KEYS); key++) {
      const count = this.#keys[key]!;
      if (count === 0) continue;
      const wide = (key >> 7) & 255;
      // Subnormals of a narrower float are normal in 32 bits.
      const stored = wide === 255 ? counts.length - 1 : wide === 0 ? 0 : Math.max(0, Math.min(counts.length - 1, wide - 127 + bias));
      counts[stored]! += count;
    }
    const first = Math.max(0, counts.findIndex((count) => count > 0));
    const last = counts.findLastIndex((count) => count > 0);
    let entropyBits = 0;
    for (const count of counts) if (count > 0) entropyBits -= (count / this.count) * Math.log2(count / this.count);
    return { first: first - bias, counts: counts.slice(first, last + 1), entropyBits, exponentBits, otherBits: allBits - exponentBits };
  }

  /** Merges mean and variance of two sets (Chan, Golub, LeVeque 1979), which is numerically stable. */
  #merge(finite: number, mean: number, numbers: ArrayLike<number>): void {
    let spread = 0;
    for (let i = 0; i < numbers.length; i++) {
      const distance = numbers[i]! - mean;
      if (distance - distance === 0) spread += distance * distance;
    }
    const all = this.finite + finite;
    const apart = mean - this.#mean;
    this.#spread += spread + apart * apart * ((this.finite * finite) / all);
    this.#mean += (apart * finite) / all;
    this.finite = all;
  }

  /** Returns the number of values with this key that are not zero. Zero shares its keys with the smallest subnormals. */
  #nonZero(key: number): number {
    const count = this.#keys[key]!;
    return key === 0 ? Math.max(0, count - this.zeros + this.#negativeZeros) : key === NEGATIVE_ZERO ? count - this.#negativeZeros : count;
  }

  #reach(): [number, number] {
    if (this.finite === 0) return [0, 1];
    if (this.min === this.max) return [this.min - 0.5, this.max + 0.5];
    const most = (this.finite - this.zeros) * OUTSIDE_SHARE;
    let [low, high, seen] = [this.min, this.max, 0];
    for (let rank = 0; rank < KEYS && seen <= most; rank++) {
      const key = rank < KEYS / 2 ? KEYS - 1 - rank : rank - KEYS / 2;
      const [from, to] = keyRange(key);
      if (!Number.isFinite(from) || this.#nonZero(key) === 0) continue;
      seen += this.#nonZero(key);
      low = Math.max(this.min, Math.min(from, to));
    }
    seen = 0;
    for (let rank = KEYS - 1; rank >= 0 && seen <= most; rank--) {
      const key = rank < KEYS / 2 ? KEYS - 1 - rank : rank - KEYS / 2;
      const [from, to] = keyRange(key);
      if (!Number.isFinite(from) || this.#nonZero(key) === 0) continue;
      seen += this.#nonZero(key);
      high = Math.min(this.max, Math.max(from, to));
    }
    return low < high ? [low, high] : [this.min, this.max];
  }
}

const keyBits = new Uint32Array(1);
const keyValue = new Float32Array(keyBits.buffer);

/** Returns the range of values with this upper half; not finite for infinity and NaN. */
function keyRange(key: number): [number, number] {
  keyBits[0] = key << 16;
  const from = keyValue[0]!;
  if (from - from !== 0) return [Number.NaN, Number.NaN];
  keyBits[0] = (key << 16) | 0xffff;
  const to = keyValue[0]!;
  return from <= to && key < KEYS / 2 ? [from, to] : [to, from];
}

/** Distributes `count` evenly over the bins from `begin` to `end`. Returns what falls outside. */
function spread(counts: Float64Array, begin: number, end: number, count: number): number {
  const bins = counts.length;
  const length = end - begin;
  if (length < 1e-9) {
    if (begin < -1e-6 || begin > bins + 1e-6) return count;
    counts[Math.max(0, Math.min(bins - 1, Math.floor(begin)))]! += count;
    return 0;
  }
  let inside = 0;
  for (let bin = Math.max(0, Math.floor(begin)); bin < Math.min(bins, Math.ceil(end)); bin++) {
    const part = (Math.min(end, bin + 1) - Math.max(begin, bin)) / length;
    counts[bin]! += part * count;
    inside += part;
  }
  return Math.max(0, 1 - inside) * count;
}
