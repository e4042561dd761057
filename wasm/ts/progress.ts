/** Word about bytes on their way. */

/** Told to `onProgress` while bytes arrive. */
export interface Progress {
  /** `"open"` while the file is being recognised, `"tensor"` while a tensor is read. */
  readonly stage: "open" | "tensor";
  /** Name of the tensor being read. */
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
  #totalBytes = 0;
  readonly #tell: OnProgress | undefined;
  readonly #about: { stage: "open" } | { stage: "tensor"; tensor: string };

  constructor(tell: OnProgress | undefined, about: { stage: "open" } | { stage: "tensor"; tensor: string }) {
    this.#tell = tell;
    this.#about = about;
  }

  /** As far as known by now, the call needs so many bytes in all. */
  expect(totalBytes: number): void {
    this.#totalBytes = Math.max(this.#totalBytes, totalBytes);
  }

  /** Bytes have arrived. */
  readonly arrived = (bytes: number): void => {
    this.#loadedBytes += bytes;
    this.expect(this.#loadedBytes); // the head of a file arrives before anyone knows how long it is
    this.#tell?.({ ...this.#about, loadedBytes: this.#loadedBytes, totalBytes: this.#totalBytes });
  };
}
