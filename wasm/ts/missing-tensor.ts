/** The error for a tensor that a model does not have. */

import { TensorNotFoundError } from "./errors.js";
import type { ZstnError } from "./errors.js";
import type { TensorInfo } from "./tensor.js";

/**
 * Returns the error for a missing tensor `name`: the reason that it is unreadable, or a `TensorNotFoundError`. The code
 * that finds suggestions is loaded on demand.
 */
export async function missingTensor(name: string, tensors: ReadonlyMap<string, TensorInfo>, unreadable: ReadonlyMap<string, ZstnError>): Promise<ZstnError> {
  const refusal = unreadable.get(name);
  if (refusal) return refusal;
  const { suggestNames } = await import("./suggest.js").catch(() => ({ suggestNames: () => [] }));
  const matches = suggestNames(name, tensors.keys());
  const hint = matches.length > 0 ? ` Did you mean ${matches.join(" or ")}?` : "";
  return new TensorNotFoundError(name, matches, `The model has no tensor named ${JSON.stringify(name)}.${hint}`);
}
