/** Models in the WebAssembly core. */

import type { CoreInstance, CoreModel } from "./core.js";
import type { ReadFile, ReadShards } from "./opened-file.js";
import type { OpenedModel } from "./opened-model.js";
import { readCoreTensor } from "./read-core-tensor.js";
import { RowPlanner } from "./row-planner.js";

/** Returns a model in the core, with the functions that read its tensors. */
export function openedModel(instance: CoreInstance, model: CoreModel, files: readonly ReadFile[], shards?: ReadShards): OpenedModel {
  const planner = new RowPlanner(instance, model, files.map(({ source }) => source));
  return { instance, model, files, shards, readTensor: readCoreTensor, planner };
}
