/** The plan of a read: the ranges that `model.tensor` would fetch. */

import { totalBytes } from "./byte-ranges.js";
import type { CoreModel } from "./core.js";
import type { OpenedModel } from "./opened-model.js";
import type { RowPlanner } from "./row-planner.js";
import { partOf, type Part, type ReadPlan } from "./rows.js";
import { plainParts } from "./safetensors/plain-rows.js";
import type { StoredPart, TensorInfo } from "./tensor.js";
import type { PlanOptions } from "./tensor-options.js";

type Ranges = readonly StoredPart[] | undefined;

/** Runs `work` with a signal that aborts when the model is closed. */
type WhileOpen = (work: (signal: AbortSignal) => Promise<Ranges>) => Promise<Ranges>;

/**
 * Returns the ranges that reading tensor `index` of the model, or a part of it, will fetch. Throws an
 * `InvalidInputError` if the tensor does not have this part.
 */
export async function planOf(
  info: TensorInfo,
  index: number,
  { rows, select }: PlanOptions,
  { model, files }: OpenedModel,
  planner: () => Promise<RowPlanner | undefined>,
  whileOpen: WhileOpen,
): Promise<ReadPlan> {
  const views = files[info.parts[0]?.file as number]?.views;
  const part = await partOf(info, rows, select);
  if (part ?? views) {
    const parts = await whileOpen(async (signal) => (part ? rangesOf(part, info, index, await planner(), signal) : views!.planView(model as CoreModel, index, info, signal)));
    if (parts) return { whole: false, bytes: totalBytes(parts), parts };
  }
  return { whole: true, bytes: totalBytes(info.parts), parts: info.parts };
}

/** Returns the ranges to fetch for a part of a tensor; `undefined` if the whole tensor has to be read. */
async function rangesOf(part: Part, info: TensorInfo, index: number, planner: RowPlanner | undefined, signal: AbortSignal): Promise<Ranges> {
  const spans = await part.spans({ signal, index, planner: async () => planner });
  const ranges = new Map<string, StoredPart>();
  for (const span of spans ?? []) {
    if (span[1] - span[0] === info.byteLength) return undefined;
    const parts = planner ? await planner.parts(index, span, { signal }) : plainParts(info, span);
    if (!parts) return undefined;
    // Two spans may need the same block.
    for (const part of parts) ranges.set(`${part.file} ${part.offset}`, part);
  }
  return spans && [...ranges.values()];
}
