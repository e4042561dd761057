/** A tensor on its way through a pool. */

import type { Job } from "./decoder.js";

type Bytes = Uint8Array<ArrayBuffer>;
type Resolve = (bytes: Bytes | Promise<Bytes>) => void;
type Reject = (error: unknown) => void;

export class Task {
  readonly job: Job;
  readonly promise: Promise<Bytes>;
  settled = false;
  readonly #resolve: Resolve;
  readonly #reject: Reject;
  readonly #aborted = () => this.fail(this.job.signal.reason);

  constructor(job: Job) {
    this.job = job;
    let settle: [Resolve, Reject];
    this.promise = new Promise((resolve, reject) => (settle = [resolve, reject]));
    [this.#resolve, this.#reject] = settle!;
    if (job.signal.aborted) this.#aborted();
    else job.signal.addEventListener("abort", this.#aborted, { once: true });
  }

  /** The bytes have come from another thread, or will come from this one. */
  succeed(bytes: Bytes | Promise<Bytes>): void {
    this.#settle(() => this.#resolve(bytes));
  }

  fail(error: unknown): void {
    this.#settle(() => this.#reject(error));
  }

  #settle(how: () => void): void {
    if (this.settled) return;
    this.settled = true;
    this.job.signal.removeEventListener("abort", this.#aborted);
    how();
  }
}
