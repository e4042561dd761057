/** Word about bytes on their way. */

/** Told to `onProgress` while bytes arrive. */
export interface Progress {
  /**
   * `"open"` while the file is being recognised, `"tensor"` while a tensor is read, `"stream"` while several are,
   * `"pack"` while a file is packed.
   */
  readonly stage: "open" | "tensor" | "stream" | "pack";
  /** Name of the tensor being read; none where several are read at the same time. */
  readonly tensor?: string;
  /** Bytes of this call that have arrived. */
  readonly loadedBytes: number;
  /** Bytes this call will need, as far as known by now. */
  readonly totalBytes: number;
}

/** Receives progress; what it throws ends the call. */
export type OnProgress = (progress: Progress) => void;

/** Adds up the bytes of one call, whose reads may run side by side. */
export class ProgressMeter {
  #loadedBytes = 0;
  #expectedBytes = 0;
  readonly #tell: OnProgress | undefined;
  #about: Pick<Progress, "stage" | "tensor">;

  constructor(tell: OnProgress | undefined, about: Pick<Progress, "stage" | "tensor">) {
    this.#tell = tell;
    this.#about = about;
  }

  /** As far as known by now, the call needs so many bytes in all. */
  expect(totalBytes: number): void {
    this.#expectedBytes = Math.max(this.#expectedBytes, totalBytes);
  }

  /** The call needs so many bytes besides those known of. */
  expectMore(bytes: number): void {
    this.#expectedBytes += bytes;
  }

  /** The bytes that come now are those of this tensor, or of none. */
  about(tensor: string | undefined): void {
    const { stage } = this.#about;
    this.#about = tensor === undefined ? { stage } : { stage, tensor };
  }

  /** Bytes have arrived. */
  readonly arrived = (bytes: number): void => {
    this.#loadedBytes += bytes;
    // The head of a file arrives before anyone knows how long it is.
    const totalBytes = Math.max(this.#expectedBytes, this.#loadedBytes);
    this.#tell?.({ ...this.#about, loadedBytes: this.#loadedBytes, totalBytes });
  };
}
