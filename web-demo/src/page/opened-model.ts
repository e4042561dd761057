/** The page's data about an open model. */

import type { TensorInfo } from "zstn";
import type { ModelSource, ModelSummary } from "../engine/protocol.js";

export interface OpenedModel extends ModelSummary {
  readonly source: ModelSource;
  readonly byName: ReadonlyMap<string, TensorInfo>;
}

/** Returns whether a model has a tensor of the same name and shape, so that the difference of both can be shown. */
export function hasLike(model: OpenedModel | undefined, { name, shape }: TensorInfo): boolean {
  const other = model?.byName.get(name);
  return other !== undefined && other.shape.length === shape.length && other.shape.every((size, i) => size === shape[i]);
}
