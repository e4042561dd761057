/** The description of a model, which is complete once the model is open. */

import type { ZstnError } from "./errors.js";
import type { ModelKind } from "./model-kind.js";
import type { TensorInfo } from "./tensor.js";

export interface Description {
  kind: ModelKind;
  /**
   * Total length of the safetensors files that the model was packed from, in bytes; for other formats the total length
   * of all tensors.
   */
  originalSize: number;
  metadata: Record<string, string>;
  /** The tensors, file by file, in the order of their data. */
  tensors: TensorInfo[];
  /** The errors of the tensors that cannot be read. */
  refused: ZstnError[];
}
