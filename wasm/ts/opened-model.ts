/** The type of a model whose files have been opened. */

import type { CoreModel, ModelInstance } from "./core.js";
import type { ReadFile, ReadShards } from "./opened-file.js";
import type { readCoreTensor } from "./read-core-tensor.js";
import type { RowPlanner } from "./row-planner.js";
import type { PlainModel } from "./safetensors/plain-model.js";

/** A model, and the bytes read from its files, from which another core can build it again. */
export interface OpenedModel {
  instance: ModelInstance;
  model: CoreModel | PlainModel;
  files: readonly ReadFile[];
  /** Reads tensors of a model in the core; absent from other models, like `planner`. */
  readTensor?: typeof readCoreTensor;
  /** Reads rows of these tensors. */
  planner?: RowPlanner;
  /** The shard index; `undefined` for a model in one file. */
  shards: ReadShards | undefined;
  /** Whether the tensors are the bytes that a delta refers to in a file of another format than safetensors. */
  isReferenced?: boolean;
}
