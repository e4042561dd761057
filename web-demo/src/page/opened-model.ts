/** The page's data about an open model. */

import type { TensorInfo } from "zstn";
import type { ModelSource, ModelSummary } from "../engine/protocol.js";
import type { TensorTable } from "../engine/tensor-table.js";

export interface OpenedModel extends Omit<ModelSummary, "columns"> {
  readonly source: ModelSource;
  readonly tensors: TensorTable;
}

/** Returns whether a model has a tensor of the same name and shape, so that the difference of both can be shown. */
export function hasLike(model: OpenedModel | undefined, { name, shape }: TensorInfo): boolean {
  const other = model?.tensors.find(name);
  return other !== undefined && other.shape.length === shape.length && other.shape.every((size, i) => size === shape[i]);
}
