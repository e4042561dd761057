/** The options and the result of `model.readToGpu`. They name no type of WebGPU, which some programs have no types for. */

import type { OptionNames } from "../known-options.js";
import type { OnProgress } from "../progress.js";
import type { RowRange } from "../rows.js";
import type { TensorInfo } from "../tensor.js";

/** A `GPUDevice`. */
export interface GpuDevice {
  /** The queue of the device. */
  readonly queue: object;
  /** The limits of the device. */
  readonly limits: object;
}

/** A `GPUBuffer`. */
export interface GpuBuffer {
  /** The length, in bytes. */
  readonly size: number;
  /** The bits of `GPUBufferUsage` that the buffer was created with. */
  readonly usage: number;
  /** Whether the buffer is mapped: `"unmapped"`, `"pending"` or `"mapped"`. */
  readonly mapState: string;
}

/** Options of `model.readToGpu`. */
export interface GpuReadOptions {
  /** The device that the buffer was created by. */
  device: GpuDevice;
  /**
   * The buffer to read into, with the usages `STORAGE` and `COPY_DST`. It must not be mapped. If the call fails, the
   * contents of the tensor's bytes are undefined.
   */
  buffer: GpuBuffer;
  /** Position of the tensor in the buffer, in bytes: a multiple of 4, by default 0. */
  offset?: number;
  /** The rows to read, as for `model.tensor`. The CPU decodes them, unless they are all rows. */
  rows?: RowRange;
  /** Aborts the read, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called as bytes arrive. */
  onProgress?: OnProgress;
}

/** A tensor, or rows of one, in a buffer of a GPU. */
export interface GpuTensor extends Pick<TensorInfo, "name" | "dtype" | "shape" | "byteLength"> {
  /** Position of the tensor in the buffer, in bytes. */
  readonly offset: number;
  /** What decoded the tensor. Tensors that are not packed count as decoded by the CPU. */
  readonly decodedBy: "gpu" | "cpu";
}

export const GPU_READ_OPTIONS: OptionNames<GpuReadOptions> = { device: 1, buffer: 1, offset: 1, rows: 1, signal: 1, onProgress: 1 };
