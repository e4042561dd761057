/** Computes statistics of values in one pass, with a table of counts that all histograms are derived from. */

import type { Exponents, Histogram } from "./protocol.js";
import type { FloatBits, RowBlock } from "./matrix-reader.js";

const LINEAR_BINS = 96;
/**
 * The fraction of values that may be outside the histogram. Otherwise one outlier would compress all other values into
 * one bar.
 */
const OUTSIDE_SHARE = 5e-5;
/** The squares of larger values, or of values that are all smaller than its inverse, may leave the range of a double. */
const SQUARABLE = 2 ** 400;

/**
 * The keys that values are counted by: the upper bits of a float of 32 or 64 bits, which are its sign, its exponent and
 * a few bits of mantissa.
 */
interface KeyLayout {
  /** The number of keys. The first half belongs to values from zero up, the second half to values from negative zero down. */
  readonly keys: number;
  /** The number of mantissa bits in a key. `shift` is the number of bits of the upper word that a key drops. */
  readonly mantissaBits: number;
  readonly shift: number;
  readonly exponents: number;
  readonly bias: number;
  /** Returns the range of the values that have a key; not finite for infinity and NaN. */
  readonly range: (key: number) => [number, number];
}

const NARROW: KeyLayout = { keys: 1 << 16, mantissaBits: 7, shift: 16, exponents: 256, bias: 127, range: (key) => rangeOf(narrowValue, key, 1 << 15) };
const WIDE: KeyLayout = { keys: 1 << 20, mantissaBits: 8, shift: 12, exponents: 2048, bias: 1023, range: (key) => rangeOf(wideValue, key, 1 << 19) };

export class ValueStats {
  count = 0;
  finite = 0;
  zeros = 0;
  nans = 0;
  infinities = 0;
  min = Number.POSITIVE_INFINITY;
  max = Number.NEGATIVE_INFINITY;
  /**
   * The power of two that values are divided by before they enter `#mean` and `#spread`, the sum of the squared
   * distances from the mean.
   */
  #unit = 1;
  #mean = 0;
  #spread = 0;
  #negativeZeros = 0;
  #layout = NARROW;
  #keys = new Float64Array(NARROW.keys);
  readonly #one = new Float32Array(1);
  readonly #oneBits = new Uint32Array(this.#one.buffer);

  add({ numbers }: RowBlock): void {
    if (numbers instanceof Float64Array && this.#layout !== WIDE) {
      // All blocks of a tensor have the same array type.
      this.#layout = WIDE;
      this.#keys = new Float64Array(WIDE.keys);
    }
    const [one, oneBits, keys] = [this.#one, this.#oneBits, this.#keys];
    const halves = numbers instanceof Float64Array ? new Uint32Array(numbers.buffer, numbers.byteOffset, 2 * numbers.length) : undefined;
    let [finite, sum, min, max] = [0, 0, this.min, this.max];
    for (let i = 0; i < numbers.length; i++) {
      const value = numbers[i]!;
      if (halves) keys[halves[2 * i + 1]! >>> WIDE.shift]! += 1;
      else {
        one[0] = value;
        keys[oneBits[0]! >>> NARROW.shift]! += 1;
      }
      if (value - value !== 0) {
        if (Number.isNaN(value)) this.nans += 1;
        else this.infinities += 1;
        continue;
      }
      finite += 1;
      sum += value;
      if (value === 0) {
        this.zeros += 1;
        if (Object.is(value, -0)) this.#negativeZeros += 1;
      }
      if (value < min) min = value;
      if (value > max) max = value;
    }
    this.count += numbers.length;
    [this.min, this.max] = [min, max];
    if (finite === 0) return;
    this.#scaleTo(Math.max(Math.abs(min), Math.abs(max)));
    // The sum overflows only if values are huge.
    const mean = Number.isFinite(sum) && this.#unit === 1 ? sum / finite : meanOf(numbers, finite, this.#unit);
    this.#merge(finite, mean, numbers);
  }

  /** Chooses the unit so that squares of values up to `most` are in the range of a double. */
  #scaleTo(most: number): void {
    if (most === 0 || (most <= SQUARABLE && most >= 1 / SQUARABLE)) return this.#setUnit(most === 0 ? this.#unit : 1);
    this.#setUnit(2 ** Math.floor(Math.log2(most)));
  }

  #setUnit(unit: number): void {
    const factor = this.finite === 0 ? 1 : this.#unit / unit;
    this.#mean *= factor;
    this.#spread *= factor * factor;
    this.#unit = unit;
  }

  get mean(): number {
    return this.finite > 0 ? this.#mean * this.#unit : Number.NaN;
  }

  get standardDeviation(): number {
    return this.finite > 0 ? Math.sqrt(this.#spread / this.finite) * this.#unit : Number.NaN;
  }

  /** The root of the sum of the squares of all finite values; NaN if there is none. */
  get norm(): number {
    return this.finite > 0 ? Math.sqrt(this.#spread + this.finite * this.#mean ** 2) * this.#unit : Number.NaN;
  }

  /** Returns the histogram of the nonzero values, with bins of equal width over the range of nearly all of them. */
  histogram(): Histogram {
    const [low, high] = this.#reach();
    // The width of the range itself may exceed the range of a double.
    const width = high / LINEAR_BINS - low / LINEAR_BINS || 1;
    const counts = new Float64Array(LINEAR_BINS);
    let outside = 0;
    for (let key = 0; key < this.#layout.keys; key++) {
      const count = this.#nonZero(key);
      if (count === 0) continue;
      const [from, to] = this.#layout.range(key);
      if (!Number.isFinite(from)) continue;
      // The values with one key are assumed to be uniformly distributed over its range.
      const [begin, end] = [Math.max(from, this.min), Math.max(Math.min(to, this.max), Math.max(from, this.min))];
      outside += spread(counts, begin / width - low / width, end / width - low / width, count);
    }
    return { edges: Float64Array.from(counts, (_, i) => low + i * width), counts, outside };
  }

  /** Returns the histogram of the magnitudes of nonzero values, with one bin for each power of two. */
  magnitudes(): Histogram {
    const { bias, exponents } = this.#layout;
    const byPower = this.#byExponent();
    const first = Math.max(1, byPower.findIndex((count, power) => power > 0 && count > 0));
    const last = Math.max(first, byPower.subarray(0, exponents - 1).findLastIndex((count) => count > 0));
    const edges = Float64Array.from({ length: last - first + 1 }, (_, i) => first + i - bias);
    return { edges, counts: byPower.slice(first, last + 1), outside: 0 };
  }

  /** Returns the histogram of the stored exponents. */
  exponents({ exponentBits, bias, allBits }: FloatBits): Exponents {
    const isWide = this.#layout === WIDE;
    const byExponent = this.#byExponent();
    const counts = isWide ? byExponent : new Float64Array(1 << exponentBits);
    for (let wide = 0; wide < (isWide ? 0 : byExponent.length); wide++) {
      const count = byExponent[wide]!;
      if (count === 0) continue;
      // Subnormals of a narrower float are normal numbers in 32 bits.
      const stored = wide === 255 ? counts.length - 1 : wide === 0 ? 0 : Math.max(0, Math.min(counts.length - 1, wide - 127 + bias));
      counts[stored]! += count;
    }
    const first = Math.max(0, counts.findIndex((count) => count > 0));
    const last = counts.findLastIndex((count) => count > 0);
    let entropyBits = 0;
    for (const count of counts) if (count > 0) entropyBits -= (count / this.count) * Math.log2(count / this.count);
    return { first: first - bias, counts: counts.slice(first, last + 1), entropyBits, exponentBits, otherBits: allBits - exponentBits };
  }

  /** Returns the number of values with each exponent, as the key layout stores it. */
  #byExponent(): Float64Array<ArrayBuffer> {
    const { keys, mantissaBits, exponents } = this.#layout;
    const counts = new Float64Array(exponents);
    for (let key = 0; key < keys; key++) counts[(key >> mantissaBits) & (exponents - 1)]! += this.#keys[key]!;
    return counts;
  }

  /** Adds a set of values to mean and spread by the numerically stable method of Chan, Golub and LeVeque (1979). */
  #merge(finite: number, mean: number, numbers: ArrayLike<number>): void {
    let spread = 0;
    const unit = this.#unit;
    for (let i = 0; i < numbers.length; i++) {
      const distance = numbers[i]! / unit - mean;
      if (distance - distance === 0) spread += distance * distance;
    }
    const all = this.finite + finite;
    const apart = mean - this.#mean;
    this.#spread += spread + apart * apart * ((this.finite * finite) / all);
    this.#mean += (apart * finite) / all;
    this.finite = all;
  }

  /** Returns the number of nonzero values with this key. Zero shares its keys with the smallest subnormals. */
  #nonZero(key: number): number {
    const count = this.#keys[key]!;
    return key === 0 ? Math.max(0, count - this.zeros + this.#negativeZeros) : key === this.#layout.keys / 2 ? count - this.#negativeZeros : count;
  }

  #reach(): [number, number] {
    if (this.finite === 0) return [0, 1];
    if (this.min === this.max) return [this.min - 0.5, this.max + 0.5];
    const most = (this.finite - this.zeros) * OUTSIDE_SHARE;
    const { keys } = this.#layout;
    let [low, high, seen] = [this.min, this.max, 0];
    for (let rank = 0; rank < keys && seen <= most; rank++) {
      const key = rank < keys / 2 ? keys - 1 - rank : rank - keys / 2;
      const [from, to] = this.#layout.range(key);
      if (!Number.isFinite(from) || this.#nonZero(key) === 0) continue;
      seen += this.#nonZero(key);
      low = Math.max(this.min, Math.min(from, to));
    }
    seen = 0;
    for (let rank = keys - 1; rank >= 0 && seen <= most; rank--) {
      const key = rank < keys / 2 ? keys - 1 - rank : rank - keys / 2;
      const [from, to] = this.#layout.range(key);
      if (!Number.isFinite(from) || this.#nonZero(key) === 0) continue;
      seen += this.#nonZero(key);
      high = Math.min(this.max, Math.max(from, to));
    }
    return low < high ? [low, high] : [this.min, this.max];
  }
}

/** Returns the mean of the finite values divided by `unit`. */
function meanOf(numbers: ArrayLike<number>, finite: number, unit: number): number {
  let mean = 0;
  for (let i = 0; i < numbers.length; i++) {
    const value = numbers[i]!;
    if (value - value === 0) mean += value / unit / finite;
  }
  return mean;
}

const keyBits = new Uint32Array(2);
const narrow = new Float32Array(keyBits.buffer, 4, 1);
const wide = new Float64Array(keyBits.buffer);

/** Returns the value of the smallest (`end` 0) or the largest magnitude (`end` 1) among the values with this key. */
type ValueOf = (key: number, end: 0 | 1) => number;

const narrowValue: ValueOf = (key, end) => {
  keyBits[1] = (key << NARROW.shift) | (end * ((1 << NARROW.shift) - 1));
  return narrow[0]!;
};

const wideValue: ValueOf = (key, end) => {
  keyBits[0] = end * 0xffffffff;
  keyBits[1] = (key << WIDE.shift) | (end * ((1 << WIDE.shift) - 1));
  return wide[0]!;
};

/** Returns the range of the values that have a key. Keys from `negative` on belong to negative values. */
function rangeOf(value: ValueOf, key: number, negative: number): [number, number] {
  const [from, to] = [value(key, 0), value(key, 1)];
  if (from - from !== 0) return [Number.NaN, Number.NaN];
  return key < negative ? [from, to] : [to, from];
}

/** Distributes `count` evenly over the bins from `begin` to `end`. Returns the part of `count` outside all bins. */
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
