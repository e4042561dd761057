/** A read that shares a request with other reads. */

import type { ReadOptions } from "../source.js";

export class SharedRead {
  readonly begin: number;
  readonly end: number;
  readonly promise: Promise<Uint8Array>;
  settled = false;
  /** Called once when the read has succeeded, failed or been aborted. */
  onSettled: () => void = () => {};
  readonly options: ReadOptions;
  readonly #resolve: (bytes: Uint8Array) => void;
  readonly #reject: (error: unknown) => void;
  readonly #aborted = () => this.fail(this.options.signal!.reason);
  #announcedBytes = 0;

  constructor(offset: number, length: number, options: ReadOptions) {
    this.begin = offset;
    this.end = offset + length;
    this.options = options;
    let settle: [(bytes: Uint8Array) => void, (error: unknown) => void];
    this.promise = new Promise((resolve, reject) => (settle = [resolve, reject]));
    [this.#resolve, this.#reject] = settle!;
    const { signal } = options;
    if (signal?.aborted) this.#aborted();
    else signal?.addEventListener("abort", this.#aborted, { once: true });
  }

  /** Reports that bytes `begin` to `end` of the file have arrived for the shared request. `end` is exclusive. */
  arrived(begin: number, end: number): void {
    this.#announce(Math.min(end, this.end) - Math.max(begin, this.begin));
  }

  succeed(bytes: Uint8Array): void {
    this.#announce(this.end - this.begin - this.#announcedBytes); // sources need not report progress
    this.#settle(() => this.#resolve(bytes));
  }

  fail(error: unknown): void {
    this.#settle(() => this.#reject(error));
  }

  #announce(bytes: number): void {
    if (this.settled || bytes <= 0) return;
    this.#announcedBytes += bytes;
    try {
      this.options.onBytes?.(bytes);
    } catch (error) {
      this.fail(error); // the other reads of the request must not fail because of this caller
    }
  }

  #settle(how: () => void): void {
    if (this.settled) return;
    this.settled = true;
    this.options.signal?.removeEventListener("abort", this.#aborted);
    how();
    this.onSettled();
  }
}
