/** The types that describe how much tensors of two models differ, in messages between the page and its worker. */

/** Facts about a tensor of both models that the files record, so that no tensor bytes are read. */
export interface StatedChange {
  readonly name: string;
  /**
   * True if both models have the same bytes, according to stored digests or because a delta copies the tensor from its
   * base. Absent if the files do not record it.
   */
  readonly isSame?: boolean;
  /** The number of values that are NaN or infinite, in the first and in the second model. */
  readonly nonFinite?: readonly [first: number, second: number];
  /** The sum of the squares of the second model's finite values. */
  readonly baseSquares?: number;
}

/** The names of the tensors to compare. Both models have them with the same shape. */
export interface ChangesRequest {
  readonly tensors: readonly string[];
  /** The maximum number of bytes that the sample of one tensor fetches from both models; `undefined` to compare all rows. */
  readonly maxBytes: number | undefined;
}

/** The sums over some rows of both models. */
export interface ChangeSums {
  /** The number of compared values; `changed` is the number of values whose bits differ. Complex elements have two values. */
  readonly compared: number;
  readonly changed: number;
  /**
   * The sum of the squares of the differences; `baseSquares` is the sum of the squares of the second model's values.
   * Both cover pairs of finite values.
   */
  readonly squares: number;
  readonly baseSquares: number;
}

/** The difference between a tensor of the first model and the same tensor of the second model. */
export interface TensorChange extends ChangeSums {
  readonly name: string;
  /** True if all elements were compared, and not just a sample. */
  readonly exact: boolean;
  /** The number of values that are NaN or infinite in the first model only; `lost` is the number in the second model only. */
  readonly gained: number;
  readonly lost: number;
  /** True if elements are numbers. Booleans can be compared, but not subtracted. */
  readonly numeric: boolean;
  /** The sums of separate groups of rows, from which the margin of an estimate is computed. */
  readonly groups: readonly ChangeSums[];
  /** The number of bytes that comparing the remaining values would fetch from both models. */
  readonly leftBytes: number;
  /** Present if nothing was compared because even the smallest sample would fetch this many bytes. */
  readonly neededBytes?: number;
}

export interface ChangesResult {
  readonly changes: readonly TensorChange[];
  /** The number of bytes that both models fetched during the call. */
  readonly fetchedBytes: number;
}
