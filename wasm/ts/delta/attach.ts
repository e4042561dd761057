/** Checks that run before the bases of a delta are attached to it. */

import { assemble } from "../build-model.js";
import { catalogIn, openFile } from "../catalog.js";
import type { CoreInstance } from "../core.js";
import { BaseRequiredError, InvalidInputError } from "../errors.js";
import type { Decoding } from "../decode/worker-pool.js";
import type { Model } from "../model.js";
import type { OpenedModel } from "../opened-model.js";
import { PlainModel } from "../safetensors/plain-model.js";
import { checkBase } from "./check-base.js";
import { BASE_OF_BASE, originalOf } from "./original-file.js";

/** A checkpoint that a delta was made against, and what was read from its files. */
export interface Attached {
  model: Model;
  opened: OpenedModel;
  /** Aborted once the model is closed. */
  closed: AbortSignal;
}

/** Functions that modules that are loaded later do not import, so that bundlers do not divide the code that is loaded at once. */
export interface OpenFunctions {
  assemble: typeof assemble;
  catalogIn: typeof catalogIn;
  openFile: typeof openFile;
  originalOf: typeof originalOf;
}

const missingBases = (count: number): string =>
  count < 2
    ? "This file is a delta (Z4DM) of another checkpoint. Pass the base as open(source, { base })."
    : `This file is a delta (Z4DM) of ${count} checkpoints together. Pass all of them, in the same order, as open(source, { base: [first, second] }).`;

const functions: OpenFunctions = { assemble, catalogIn, openFile, originalOf };

/**
 * Returns the base of a delta that was opened with `bases`, and whether it is closed with the delta, as the models in
 * `owned` are; or, if the delta restores a file of another format than safetensors, the model of that file. Rejects with
 * an `InvalidInputError` if the opened model is not a delta, with a `BaseRequiredError` without bases, with a
 * `ModelClosedError` if one is closed, and with a `WrongBaseError` if the delta was made against others.
 */
export async function attached(delta: Model, { model, instance, files }: OpenedModel, decoding: Decoding | undefined, bases: readonly Attached[], owned: readonly Model[], isBase: boolean): Promise<Model | [base: Model, isOwned: boolean]> {
  if (!delta.needsBase || model instanceof PlainModel) {
    throw new InvalidInputError("`base` is for deltas (Z4DM), and this file is not a delta.");
  }
  for (const { closed, opened } of bases) {
    closed.throwIfAborted();
    opened.instance.check();
  }
  const core = instance as CoreInstance;
  const count = core.call(() => model.sourceCount());
  if (bases.length === 0) throw new BaseRequiredError(isBase ? BASE_OF_BASE : missingBases(count));
  const [first, another] = bases as [Attached, Attached?];
  if (another && count < 2) throw new InvalidInputError(`This delta was made against one base; ${bases.length} were given.`);
  if (count > 0) {
    const base = await (await import("./computed-base.js")).computedBase(functions, core, { delta, model, fileCount: files.length }, bases, owned, decoding);
    try {
      checkBase(core, model, base.opened, "safetensors");
      return [base.model, true];
    } catch (error) {
      base.model.close();
      throw error;
    }
  }
  const isOwned = owned.includes(first.model);
  if (!first.opened.isReferenced && core.call(() => model.restoredKind())) {
    return (await import("./other-format.js")).openInside(functions, core, delta, model, decoding!, first, isOwned);
  }
  checkBase(core, model, first.opened, first.model.kind);
  return [first.model, isOwned];
}
