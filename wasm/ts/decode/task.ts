/** A decode request that is waiting in a pool or being decoded. */

import type { DecodeRequest } from "./decoder.js";

type Bytes = Uint8Array<ArrayBuffer>;
type Resolve = (bytes: Bytes | Promise<Bytes>) => void;
type Reject = (error: unknown) => void;

export class Task {
  readonly request: DecodeRequest;
  readonly promise: Promise<Bytes>;
  settled = false;
  readonly #resolve: Resolve;
  readonly #reject: Reject;
  readonly #aborted = () => this.fail(this.request.signal.reason);

  constructor(request: DecodeRequest) {
    this.request = request;
    let settle: [Resolve, Reject];
    this.promise = new Promise((resolve, reject) => (settle = [resolve, reject]));
    [this.#resolve, this.#reject] = settle!;
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
