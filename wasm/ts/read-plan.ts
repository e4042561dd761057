/** The plan of a read: the ranges that `model.tensor` would fetch. */

import { totalBytes } from "./byte-ranges.js";
import type { OpenedModel } from "./opened-model.js";
import { partOf, type ByteSpan, type Part, type PartPlanner, type ReadPlan } from "./rows.js";
import { PlainModel } from "./safetensors/plain-model.js";
import type { StoredPart, TensorInfo } from "./tensor.js";
import type { PlanOptions } from "./tensor-options.js";

type Ranges = readonly StoredPart[] | undefined;

/** Runs `work` with a signal that aborts when the model is closed. */
type WhileOpen = (work: (signal: AbortSignal) => Promise<Ranges>) => Promise<Ranges>;

/**
 * Returns the ranges that reading a tensor, or a part of it, will fetch. `tensors` are all tensors of the model. Throws
 * an `InvalidInputError` if the tensor does not have this part.
 */
export async function planOf(info: TensorInfo, tensors: ReadonlyMap<string, TensorInfo>, { rows, select }: PlanOptions, { model, files, planner }: OpenedModel, whileOpen: WhileOpen): Promise<ReadPlan> {
  const views = files[info.parts[0]?.file as number]?.views;
  const part = await partOf(info, rows, select);
  if (part ?? views) {
    const parts = await whileOpen(async (signal) => {
      const options = { signal };
      if (model instanceof PlainModel) return rangesOf(part!, info, { bandBytes: (position) => model.bandBytes(info, position, options) }, (span) => model.partsOf(info, span, options));
      const index = planner!.indexOf(info.name, tensors);
      if (!part) return views!.planView(model, index, info, signal);
      return rangesOf(part, info, { bandBytes: (position) => planner!.bandBytes(index, position, options) }, (span) => planner!.parts(index, span, options));
    });
    if (parts) return { whole: false, bytes: totalBytes(parts), parts };
  }
  return { whole: true, bytes: totalBytes(info.parts), parts: info.parts };
}

/** Returns the ranges to fetch for a part of a tensor; `undefined` if the whole tensor has to be read. */
async function rangesOf(part: Part, info: TensorInfo, planner: PartPlanner, partsOf: (span: ByteSpan) => Promise<StoredPart[] | undefined>): Promise<Ranges> {
  const spans = await part.spans(planner);
  const ranges = new Map<string, StoredPart>();
  for (const span of spans ?? []) {
    if (span[1] - span[0] === info.byteLength) return undefined;
    const parts = await partsOf(span);
    if (!parts) return undefined;
    // Two spans may need the same block.
    for (const part of parts) ranges.set(`${part.file} ${part.offset}`, part);
  }
  return spans && [...ranges.values()];
}
