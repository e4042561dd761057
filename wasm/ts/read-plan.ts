/** The plan of a read: the ranges that `model.tensor` would fetch. */

import { totalBytes } from "./byte-ranges.js";
import type { OpenedModel } from "./opened-model.js";
import { rowsInfo, type ReadPlan, type RowRange } from "./rows.js";
import { PlainModel } from "./safetensors/plain-model.js";
import { plainRows } from "./safetensors/plain-rows.js";
import type { StoredPart, TensorInfo } from "./tensor.js";

type Ranges = readonly StoredPart[] | undefined;

/** Runs `work` with a signal that aborts when the model is closed. */
type WhileOpen = (work: (signal: AbortSignal) => Promise<Ranges>) => Promise<Ranges>;

/**
 * Returns the ranges that reading tensor `index` of the model, or some rows of it, will fetch. Throws an
 * `InvalidInputError` if the tensor does not have these rows.
 */
export async function planOf(
  info: TensorInfo,
  index: number,
  rows: RowRange | undefined,
  { model, files, planner }: OpenedModel,
  whileOpen: WhileOpen,
): Promise<ReadPlan> {
  const views = files[info.parts[0]?.file as number]?.views;
  if (rows !== undefined) rowsInfo(info, rows);
  if (rows ?? views) {
    const parts = await whileOpen(async (signal) => {
      if (model instanceof PlainModel) return model.rowParts ? model.rowParts(info, rows!, { signal }) : plainRows(info, rows!);
      return rows ? planner!.parts(index, rows, { signal }) : views!.planView(model, index, info, signal);
    });
    if (parts) return { whole: false, bytes: totalBytes(parts), parts };
  }
  return { whole: true, bytes: totalBytes(info.parts), parts: info.parts };
}
