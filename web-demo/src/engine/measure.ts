/** Measures the statistics of tensors whose file has none, by reading all of their values. */

import type { Context } from "./context.js";
import { describe } from "./describe.js";
import { Matrix } from "./matrix.js";
import { isMeasured } from "./model-figures.js";
import { storedSource } from "./tensor-source.js";
import type { Measured } from "./statistics-table.js";
import type { Model } from "zstn";

/** The number of tensors that are read at once, so that small ones share round trips. */
const CONCURRENT = 3;

/** Reads all floating-point tensors, and passes on the progress. A tensor that cannot be read is left out. */
export async function measure(model: Model, { signal, onStep }: Context): Promise<ReadonlyMap<string, Measured>> {
  const infos = [...model.tensors.values()].filter(isMeasured);
  const totalBytes = infos.reduce((sum, { storedLength }) => sum + storedLength, 0);
  const measured = new Map<string, Measured>();
  let loadedBytes = 0;
  const queue = infos.values();
  const work = async (): Promise<void> => {
    for (const info of queue) {
      signal.throwIfAborted();
      const matrix = new Matrix(storedSource(model, info));
      const found = await describe(matrix, true, { signal, onStep: () => {} }).catch(() => undefined);
      signal.throwIfAborted();
      loadedBytes += info.storedLength;
      onStep({ loadedBytes, totalBytes });
      if (!found || found.count < found.total) continue;
      const { count, min, max, mean, norm, zeros, nans, infinities, zeroRows } = found;
      const finite = count - nans - infinities;
      measured.set(info.name, { count, min, max, mean, rms: finite > 0 ? norm / Math.sqrt(finite) : Number.NaN, zeros, nans, infinities, ...(matrix.columns > 1 && { zeroRows }) });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT }, work));
  return measured;
}
