/** Progress reports. */

/** A progress report, the argument of `onProgress`. */
export interface Progress {
  /**
   * `"open"` while a model is being opened, `"tensor"` while a tensor is read, `"stream"` while several are read,
   * `"pack"` while a file is packed, `"unpack"` while one is restored.
   */
  readonly stage: "open" | "tensor" | "stream" | "pack" | "unpack";
  /** Name of the tensor that is being read. Absent if several are read at the same time. */
  readonly tensor?: string;
  /** The number of bytes that this call has received. */
  readonly loadedBytes: number;
  /** The number of bytes that this call needs, as far as it is known. It may grow. */
  readonly totalBytes: number;
}

/** Receives progress reports. If it throws, the call fails with that error. */
export type OnProgress = (progress: Progress) => void;

/** Adds up the bytes of one call, whose reads may run concurrently. */
export class ProgressMeter {
  #loadedBytes = 0;
  #expectedBytes = 0;
  readonly #onProgress: OnProgress | undefined;
  #about: Pick<Progress, "stage" | "tensor">;

  constructor(onProgress: OnProgress | undefined, about: Pick<Progress, "stage" | "tensor">) {
    this.#onProgress = onProgress;
    this.#about = about;
  }

  /** Raises the number of bytes that the call needs in total to `totalBytes`. */
  expect(totalBytes: number): void {
    this.#expectedBytes = Math.max(this.#expectedBytes, totalBytes);
  }

  /** Adds `bytes` to the number of bytes that the call needs. */
  expectMore(bytes: number): void {
    this.#expectedBytes += bytes;
  }

  /** Sets the tensor that the next bytes belong to. */
  about(tensor: string | undefined): void {
    const { stage } = this.#about;
    this.#about = tensor === undefined ? { stage } : { stage, tensor };
  }

  /** Counts and reports newly received bytes. */
  readonly arrived = (bytes: number): void => {
    this.#loadedBytes += bytes;
    // The head of a file arrives before the file's length is known.
    const totalBytes = Math.max(this.#expectedBytes, this.#loadedBytes);
    this.#onProgress?.({ ...this.#about, loadedBytes: this.#loadedBytes, totalBytes });
  };
}
