/** Ends an attempt that makes no progress. */

import type { Clock } from "../clock.js";

/**
 * The number of bytes that must arrive within the limit: 1 KiB a second with the default of 30 seconds. That is far
 * below any usable connection, but above a server that keeps its client waiting with single bytes.
 */
export const MIN_PROGRESS_BYTES = 32 << 10;

/**
 * A signal that aborts when an attempt takes too long without a response, or without `MIN_PROGRESS_BYTES` more bytes of
 * a body.
 */
export class IdleTimeout {
  readonly #controller = new AbortController();
  readonly #limitMs: number;
  readonly #clock: Clock;
  readonly #failure: (limitMs: number) => Error;
  #cancel: () => void = () => {};
  #markedMs = 0;
  #bytesSinceMark = 0;
  /** The time until the response arrived, in milliseconds; 0 once its body has made progress. */
  #answerMs: number | undefined;

  /** Starts the timeout. `failure` creates the reason of the abort. */
  constructor(limitMs: number, clock: Clock, failure: (limitMs: number) => Error) {
    this.#limitMs = limitMs;
    this.#clock = clock;
    this.#failure = failure;
    this.#mark();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Milliseconds since the last progress. */
  get idleMs(): number {
    return (this.#answerMs ?? 0) + this.#sinceMarkMs();
  }

  /** Restarts the timeout for the body of the first response. Further responses of the same attempt share its time. */
  answered(): void {
    if (this.#answerMs !== undefined) return;
    this.#answerMs = this.#sinceMarkMs();
    this.#mark();
  }

  /** Counts received bytes of a body, and restarts the timeout after enough of them. */
  received(bytes: number): void {
    this.#bytesSinceMark += bytes;
    if (this.#bytesSinceMark < MIN_PROGRESS_BYTES) return;
    this.#answerMs = 0;
    this.#mark();
  }

  stop(): void {
    this.#cancel();
  }

  #mark(): void {
    this.#cancel();
    this.#markedMs = this.#clock.elapsedMs();
    this.#bytesSinceMark = 0;
    this.#cancel = this.#clock.after(this.#limitMs, () => this.#controller.abort(this.#failure(this.#limitMs)));
  }

  #sinceMarkMs(): number {
    return this.#clock.elapsedMs() - this.#markedMs;
  }
}
