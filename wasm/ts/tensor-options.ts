/** What a caller may say about reading one tensor. */

import type { OnProgress } from "./progress.js";
import type { RowRange } from "./rows.js";

/** What `model.tensor` may be given besides the name. */
export interface TensorOptions {
  /**
   * Only these rows, slices of the outermost dimension: the first one and the one to stop before. Where the tensor is
   * stored in blocks or as it is, nothing else is fetched; `model.plan` tells.
   */
  rows?: RowRange;
  /** Stops the read; the call then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called while the bytes arrive. */
  onProgress?: OnProgress;
  /**
   * Memory to decode into, such as an array of the tensor's type or that of the tensor before: `data` is then at its
   * beginning. At least as long as the tensor, or its rows, and placed as its elements need it. When the call fails
   * its contents are undefined.
   */
  into?: ArrayBufferView<ArrayBuffer> | ArrayBuffer;
}

/** What `model.plan` may be given besides the name. */
export type PlanOptions = Pick<TensorOptions, "rows" | "signal">;
