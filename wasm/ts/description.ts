/** What opening says of a model. */

import type { ZstnError } from "./errors.js";
import type { ModelKind } from "./model-kind.js";
import type { TensorInfo } from "./tensor.js";

/** What opening says of a model. */
export interface Description {
  kind: ModelKind;
  /** Length of the safetensors files that the model was packed from, or of all its tensors, in bytes. */
  originalSize: number;
  metadata: Record<string, string>;
  /** File by file, in data order. */
  tensors: TensorInfo[];
  /** Why some tensors cannot be read. */
  refused: ZstnError[];
}
