/** Figures of one tensor, computed piece by piece so that the page stays alive. */

import type { Tensor } from "zstn";

export interface Statistics {
  count: number;
  /** Of the finite values; NaN when there is none. */
  min: number;
  max: number;
  mean: number;
  standardDeviation: number;
  zeros: number;
  nans: number;
  infinities: number;
}

export interface Histogram {
  /** Values from here … */
  low: number;
  /** … to here were counted in `bins`. */
  high: number;
  bins: Uint32Array;
  /** Finite values outside. */
  outside: number;
}

/** About 2 ms of work on a laptop. */
const PIECE_ELEMENTS = 1 << 18;

/** Whether a tensor's elements can be shown as numbers. */
export function isNumeric(tensor: Tensor): boolean {
  return /^(BF16|F16|F32|F64|C64|[IU](8|16|32|64))$/.test(tensor.dtype);
}

/** Elements `begin` to `end` as numbers. C64 gives real and imaginary parts by turns. */
export function numbersOf(tensor: Tensor, begin: number, end: number): ArrayLike<number> {
  const { data, dtype } = tensor;
  if (dtype === "BF16" || dtype === "F16") return tensor.toFloat32(begin, end);
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
    return Float64Array.from({ length: end - begin }, (_, i) => Number(data[begin + i]));
  }
  return data.subarray(begin, end) as Exclude<typeof data, BigInt64Array | BigUint64Array>;
}

export async function statisticsOf(tensor: Tensor, signal: AbortSignal): Promise<Statistics> {
  let [min, max, sum, zeros, nans, infinities] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0, 0, 0];
  await pieces(tensor, signal, (values) => {
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      if (value - value !== 0) {
        if (Number.isNaN(value)) nans += 1;
        else infinities += 1;
        continue;
      }
      if (value < min) min = value;
      if (value > max) max = value;
      if (value === 0) zeros += 1;
      sum += value;
    }
  });
  const count = tensor.data.length;
  const finite = count - nans - infinities;
  const mean = sum / finite;
  // A second pass around the mean: squares of large values would swallow the spread.
  let squares = 0;
  await pieces(tensor, signal, (values) => {
    for (let i = 0; i < values.length; i++) {
      const distance = values[i]! - mean;
      if (distance - distance === 0) squares += distance * distance;
    }
  });
  if (finite === 0) [min, max] = [Number.NaN, Number.NaN];
  return { count, min, max, mean, standardDeviation: Math.sqrt(squares / finite), zeros, nans, infinities };
}

/** Outliers would squeeze everything into one bar, so the view ends four deviations from the mean. */
const DEVIATIONS_SHOWN = 4;

export async function histogramOf(tensor: Tensor, figures: Statistics, bins: number, signal: AbortSignal): Promise<Histogram> {
  const reach = DEVIATIONS_SHOWN * figures.standardDeviation;
  const low = Math.max(figures.min, figures.mean - reach);
  const high = Math.min(figures.max, figures.mean + reach);
  const counts = new Uint32Array(bins);
  let outside = 0;
  const scale = high > low ? bins / (high - low) : 0;
  await pieces(tensor, signal, (values) => {
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      if (value - value !== 0) continue;
      if (value < low || value > high) outside += 1;
      else {
        const bin = Math.min(bins - 1, Math.floor((value - low) * scale));
        counts[bin] = counts[bin]! + 1;
      }
    }
  });
  return { low, high, bins: counts, outside };
}

async function pieces(tensor: Tensor, signal: AbortSignal, work: (values: ArrayLike<number>) => void): Promise<void> {
  const count = tensor.data.length;
  for (let begin = 0; begin < count; begin += PIECE_ELEMENTS) {
    work(numbersOf(tensor, begin, Math.min(count, begin + PIECE_ELEMENTS)));
    await pause();
    signal.throwIfAborted();
  }
}

/** Lets the page draw and answer; without the 4 ms that nested timeouts take. */
function pause(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}
