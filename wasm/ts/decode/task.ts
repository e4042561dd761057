/** A decode request that is waiting in a pool or being decoded. */

import type { DecodeRequest } from "./decoder.js";

type Bytes = Uint8Array<ArrayBuffer>;
type Resolve = (bytes: Bytes | Promise<Bytes>) => void;
type Reject = (error: unknown) => void;

/** The number of bytes that a tensor has to be larger for each one that has arrived before it, to be decoded first. */
const OVERTAKING_BYTES = 64 << 10;

export class Task {
  /** The task with the highest priority is decoded first: the largest, unless others have waited for long. */
  readonly priority: number;
  readonly request: DecodeRequest;
  readonly promise: Promise<Bytes>;
  settled = false;
  #resolve!: Resolve;
  #reject!: Reject;
  readonly #aborted = () => this.fail(this.request.signal.reason);

  /** Creates a task. `number` counts the tasks of the pool. */
  constructor(request: DecodeRequest, number: number) {
    this.request = request;
    this.priority = request.info.byteLength - number * OVERTAKING_BYTES;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (request.signal.aborted) this.#aborted();
    else request.signal.addEventListener("abort", this.#aborted, { once: true });
  }

  /** Resolves the promise with bytes from a worker, or with a promise for bytes decoded on this thread. */
  succeed(bytes: Bytes | Promise<Bytes>): void {
    this.#settle(() => this.#resolve(bytes));
  }

  fail(error: unknown): void {
    this.#settle(() => this.#reject(error));
  }

  #settle(how: () => void): void {
    if (this.settled) return;
    this.settled = true;
    this.request.signal.removeEventListener("abort", this.#aborted);
    how();
  }
}
