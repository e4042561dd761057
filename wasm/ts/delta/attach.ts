/** Checks that run before a base is attached to a delta. */

import type { CoreInstance } from "../core.js";
import { InvalidInputError } from "../errors.js";
import type { ModelKind } from "../model-kind.js";
import type { OpenedModel } from "../opened-model.js";
import { checkBase } from "./check-base.js";
import { PlainModel } from "../safetensors/plain-model.js";

/**
 * Throws an `InvalidInputError` if the opened model is not a delta, a `ModelClosedError` if `base` is closed, and a
 * `WrongBaseError` if the delta was made against another base.
 */
export function checkAttached({ model, instance }: OpenedModel, needsBase: boolean, base: OpenedModel, kind: ModelKind, closed: AbortSignal): void {
  if (!needsBase || model instanceof PlainModel) {
    throw new InvalidInputError("`base` is for deltas (Z4DM), and this file is not a delta.");
  }
  closed.throwIfAborted();
  base.instance.check();
  checkBase(instance as CoreInstance, model, base, kind);
}
