/** Tensor digests, which were stored when the file was packed (docs/formats/zstn-integrity.md). */

import type { CoreModel, ModelInstance } from "./core.js";
import type { PlainModel } from "./safetensors/plain-model.js";

/** The length of a short digest, in bytes. */
const DIGEST_BYTES = 16;

/**
 * Returns the short digests of a model by tensor name, in hexadecimal digits. `names` lists all tensors in order.
 * Tensors without a digest are absent, as are all tensors of plain files.
 */
export function digestsOf(instance: ModelInstance, model: CoreModel | PlainModel, names: Iterable<string>): Map<string, string> {
  const digests = new Map<string, string>();
  if (!("digests" in model)) return digests;
  const bytes = instance.call(() => model.digests());
  let at = 0;
  for (const name of names) {
    const digest = bytes.subarray(at, (at += DIGEST_BYTES));
    // The core returns zeros for a tensor whose file has no digest of it.
    if (digest.some((byte) => byte !== 0)) digests.set(name, Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join(""));
  }
  return digests;
}
