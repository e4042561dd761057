/** The results of packing. */

/** The result of packing one tensor. */
export interface PackedTensor {
  /** Name of the tensor, as in the header. */
  readonly name: string;
  /** Length of the decoded tensor, in bytes. */
  readonly byteLength: number;
  /** Length of the tensor in the packed file, in bytes. */
  readonly storedLength: number;
  /** Name of the tensor with equal bytes whose stored bytes this one shares (tied weights). Absent if there is none. */
  readonly aliasOf?: string;
  /**
   * In a delta, how the tensor uses a tensor of the base. `"copy"`: the two are equal, and nothing is
   * stored. `"delta"`: the delta between the two is stored. Absent if the tensor does not use the base.
   */
  readonly base?: "copy" | "delta";
}

/** A file that was packed and is not a safetensors file. */
export interface PackedOriginal {
  /** The format of the file: `"gguf"`, `"pytorch"`, …; `"bytes"` if it is not known or the file was refused. */
  readonly kind: string;
  /** The reason why the file was packed as bytes, so that no tensors can be read from the packed file. */
  readonly refusal?: string;
}

/** The result of packing a file. */
export interface PackReport {
  /** Length of the file that was packed, in bytes. */
  readonly originalSize: number;
  /** Length of the packed file, in bytes. */
  readonly size: number;
  /**
   * True if single tensors can be read from the packed file. `false` for a file that breaks the safetensors rules, which
   * is stored as one frame, and for a file that is packed as bytes (`original.kind` is `"bytes"`).
   */
  readonly indexed: boolean;
  /**
   * The tensors in the order of their data. Empty if the file is stored as one frame. For a file of another format than
   * safetensors, these are the long tensors, and ranges of all other bytes under names such as `"@bytes/0"`.
   */
  readonly tensors: readonly PackedTensor[];
  /** Describes the file if it is not a safetensors file. */
  readonly original?: PackedOriginal;
}

/** A packed file. */
export interface Packed extends PackReport {
  /** The packed file. Browsers store a large `Blob` on disk. */
  readonly blob: Blob;
}
