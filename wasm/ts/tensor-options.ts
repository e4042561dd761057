/** The options of the calls that read one tensor. */

import type { OptionNames } from "./known-options.js";
import type { OnProgress } from "./progress.js";
import type { AxisSelection, RowRange } from "./rows.js";

/** Options of `model.tensor`. */
export interface TensorOptions {
  /**
   * The rows to read, `[begin, end]` with `end` exclusive: slices along the outermost dimension. If the tensor is
   * stored in blocks or uncompressed, only the bytes of these rows are fetched; `model.plan` lists them.
   */
  rows?: RowRange;
  /**
   * The part to read: an entry for each axis, outermost first. `[begin, end]` selects indices (`end` is exclusive, and
   * `null` leaves a bound open), `null` all of them, and an integer one index, whose axis the result does not have.
   * Entries for the last axes may be left out. Only the blocks that contain the part are fetched. Not together with `rows`.
   */
  select?: readonly AxisSelection[];
  /** Aborts the read, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called as bytes arrive. */
  onProgress?: OnProgress;
  /**
   * The memory to decode into, such as the array of an earlier tensor; `data` is then a view of its beginning. It must
   * be at least as long as the tensor or the part, and aligned for the elements. If the call fails, the contents of
   * this memory are undefined.
   */
  into?: ArrayBufferView<ArrayBuffer> | ArrayBuffer;
}

/** Options of `model.plan`. */
export type PlanOptions = Pick<TensorOptions, "rows" | "select" | "signal">;

export const ONLY_SIGNAL: OptionNames<Pick<TensorOptions, "signal">> = { signal: 1 };
export const PLAN_OPTIONS: OptionNames<PlanOptions> = { ...ONLY_SIGNAL, rows: 1, select: 1 };
export const TENSOR_OPTIONS: OptionNames<TensorOptions> = { ...PLAN_OPTIONS, onProgress: 1, into: 1 };
