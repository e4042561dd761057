/** A model whose files have been opened. */

import type { CoreModel, ModelInstance } from "./core.js";
import type { ReadFile } from "./opened-file.js";
import type { PlainModel } from "./safetensors/plain-model.js";

/** A model, and what has been read of its files, from which another core can make it again. */
export interface OpenedModel {
  instance: ModelInstance;
  model: CoreModel | PlainModel;
  files: readonly ReadFile[];
  /** The text of the index. */
  shards: Uint8Array | undefined;
}
