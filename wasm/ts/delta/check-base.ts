/** Compares the base of an open delta with the base that the delta was made against. */

import { catalogIn } from "../catalog.js";
import type { CoreInstance, CoreModel } from "../core.js";
import { InvalidInputError } from "../errors.js";
import type { ModelKind } from "../model-kind.js";
import type { OpenedModel } from "../opened-model.js";
import { PlainModel } from "../safetensors/plain-model.js";

/**
 * Throws a `WrongBaseError` if `delta`, a model in `core`, was made against another base than this model. Throws an
 * `InvalidInputError` if a model of this `kind` cannot be a base.
 */
export function checkBase(core: CoreInstance, delta: CoreModel, { instance, model, files, shards }: OpenedModel, kind: ModelKind): void {
  if (!["safetensors", "zstn", "z4dm"].includes(kind)) {
    throw new InvalidInputError(`A base is a safetensors file, plain or packed, opened with { config: false }; this one was opened as ${kind}.`);
  }
  if (instance === core && !(model instanceof PlainModel)) return core.call(() => delta.checkBase(model));
  const catalogs = files.map((file) => catalogIn(core, file));
  const index = shards && core.call(({ ShardIndex }) => new ShardIndex(shards.text));
  const copy = core.call(({ Assembly }) => new Assembly(catalogs, index, undefined).finish(false));
  try {
    core.call(() => delta.checkBase(copy));
  } finally {
    core.free(copy);
  }
}
