/** Why there is no tensor of some name. */

import { TensorNotFoundError } from "./errors.js";
import type { ZstnError } from "./errors.js";
import type { TensorInfo } from "./tensor.js";

/** Returns the reason why a model has no tensor `name`. Suggestions are loaded when they are needed. */
export async function missingTensor(name: string, tensors: ReadonlyMap<string, TensorInfo>, unreadable: ReadonlyMap<string, ZstnError>): Promise<ZstnError> {
  const refusal = unreadable.get(name);
  if (refusal) return refusal;
  const { suggestNames } = await import("./suggest.js").catch(() => ({ suggestNames: () => [] }));
  const matches = suggestNames(name, tensors.keys());
  const hint = matches.length > 0 ? ` Did you mean ${matches.join(" or ")}?` : "";
  return new TensorNotFoundError(name, matches, `The model has no tensor named ${JSON.stringify(name)}.${hint}`);
}
