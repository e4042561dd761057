/** How much tensors of two models differ, in messages between the page and its worker. */

/** Tensors that both models have, by name, with one shape. */
export interface ChangesRequest {
  readonly tensors: readonly string[];
  /** Bytes of decoded rows to take from each tensor; `undefined` to compare all rows of tensors that fit into memory together. */
  readonly sampleBytes: number | undefined;
}

/** How much one tensor of the first model differs from that of the second one. */
export interface TensorChange {
  readonly name: string;
  /** Whether all elements were compared, and not just a sample. */
  readonly exact: boolean;
  /** The number of compared values, and how many of them differ. Complex elements have two values; packed types are compared by byte. */
  readonly compared: number;
  readonly changed: number;
  /** Sum of the squares of the differences, and of the second model's values, over compared finite values. */
  readonly squares: number;
  readonly baseSquares: number;
  /** Whether elements are numbers. The bytes of packed types can be compared, but not subtracted. */
  readonly numeric: boolean;
  /** Present if the tensor was left out of the sample: it can only be read whole, in this number of bytes. */
  readonly wholeBytes?: number;
}

export interface ChangesResult {
  readonly changes: readonly TensorChange[];
  /** What both models fetched meanwhile, in bytes. */
  readonly fetchedBytes: number;
}
