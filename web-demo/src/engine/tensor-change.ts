/** How much tensors of two models differ, in messages between the page and its worker. */

/** Facts about a tensor of both models that the files state, so that they cost no tensor bytes. */
export interface StatedChange {
  readonly name: string;
  /** Whether both models have the same bytes: by stored digests, or because a delta copies the tensor from its base. Absent if no file says. */
  readonly isSame?: boolean;
  /** The number of values that are NaN or infinite, in the first and in the second model. */
  readonly nonFinite?: readonly [first: number, second: number];
  /** Sum of the squares of the second model's finite values. */
  readonly baseSquares?: number;
}

/** Tensors that both models have, by name, with one shape. */
export interface ChangesRequest {
  readonly tensors: readonly string[];
  /** The most that the sample of one tensor fetches from both models, in bytes; `undefined` to compare all of its rows. */
  readonly maxBytes: number | undefined;
}

/** Sums over some rows of both models. */
export interface ChangeSums {
  /** The number of compared values, and how many of them have other bits. Complex elements have two values. */
  readonly compared: number;
  readonly changed: number;
  /** Sum of the squares of the differences, and of the second model's values, over pairs of finite values. */
  readonly squares: number;
  readonly baseSquares: number;
}

/** How much one tensor of the first model differs from that of the second one. */
export interface TensorChange extends ChangeSums {
  readonly name: string;
  /** Whether all elements were compared, and not just a sample. */
  readonly exact: boolean;
  /** Values that are NaN or infinite in the first model alone, and in the second one alone. */
  readonly gained: number;
  readonly lost: number;
  /** Whether elements are numbers. Truth values can be compared, but not subtracted. */
  readonly numeric: boolean;
  /** The sums of separate groups of rows, from which the margin of an estimate is computed. */
  readonly groups: readonly ChangeSums[];
  /** What comparing all values that are left would fetch from both models, in bytes. */
  readonly leftBytes: number;
  /** Present if nothing was compared, since the smallest part would fetch this many bytes. */
  readonly neededBytes?: number;
}

export interface ChangesResult {
  readonly changes: readonly TensorChange[];
  /** What both models fetched meanwhile, in bytes. */
  readonly fetchedBytes: number;
}
