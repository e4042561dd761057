/** Checks that run before a base is attached to a delta. */

import { assemble } from "../build-model.js";
import { catalogIn, openFile } from "../catalog.js";
import type { CoreInstance } from "../core.js";
import { InvalidInputError } from "../errors.js";
import type { Decoding } from "../decode/worker-pool.js";
import type { Model } from "../model.js";
import type { OpenedModel } from "../opened-model.js";
import { checkBase } from "./check-base.js";
import { PlainModel } from "../safetensors/plain-model.js";

/**
 * Rejects with an `InvalidInputError` if the opened model is not a delta, with a `ModelClosedError` if `base` is closed,
 * and with a `WrongBaseError` if the delta was made against another base. A delta that restores a file of another format
 * than safetensors is attached to its base here: then it resolves to the model of that file.
 */
export async function checkAttached(delta: Model, { model, instance }: OpenedModel, decoding: Decoding | undefined, base: Model, opened: OpenedModel, ownsBase: boolean, closed: AbortSignal): Promise<Model | undefined> {
  if (!delta.needsBase || model instanceof PlainModel) {
    throw new InvalidInputError("`base` is for deltas (Z4DM), and this file is not a delta.");
  }
  closed.throwIfAborted();
  opened.instance.check();
  const core = instance as CoreInstance;
  if (!opened.isReferenced && core.call(() => model.restoredKind())) {
    return (await import("./other-format.js")).openInside({ assemble, catalogIn, openFile }, core, delta, model, decoding!, { model: base, opened }, ownsBase);
  }
  checkBase(core, model, opened, base.kind);
  return undefined;
}
