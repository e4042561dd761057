/** The results of packing. */

/** The result of packing one tensor. */
export interface PackedTensor {
  /** Its name. */
  readonly name: string;
  /** Length of the tensor itself, in bytes. */
  readonly byteLength: number;
  /** Length it takes in the packed file, in bytes. */
  readonly storedLength: number;
  /** Name of the tensor with equal bytes that is stored in place of this one (tied weights). Absent if there is none. */
  readonly aliasOf?: string;
  /**
   * In a delta, how the tensor uses the base's tensor of the same name. `"copy"`: it is equal, and nothing is stored.
   * `"difference"`: the difference is stored. Absent when the base is not needed.
   */
  readonly base?: "copy" | "difference";
}

/** The result of packing. */
export interface PackReport {
  /** Length of the safetensors file, in bytes. */
  readonly originalSize: number;
  /** Length of the container or delta, in bytes. */
  readonly size: number;
  /** Whether single tensors can be read from the packed file. A file that breaks the safetensors rules is stored as one frame. */
  readonly indexed: boolean;
  /** The tensors in the order of their data. Empty if the file is stored as one frame. */
  readonly tensors: readonly PackedTensor[];
}

/** A packed file. */
export interface Packed extends PackReport {
  /** The container or delta. Browsers keep large ones on disk. */
  readonly blob: Blob;
}
