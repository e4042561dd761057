/** Ends an attempt that makes no progress. */

import type { Clock } from "../clock.js";

/**
 * How much has to arrive within the limit, in bytes: 1 KiB a second with the default of 30 seconds. That is far below
 * any usable connection, and above a server that keeps its reader waiting with single bytes.
 */
export const MIN_PROGRESS_BYTES = 32 << 10;

/** A signal that aborts when an attempt goes on for too long without an answer, or without `MIN_PROGRESS_BYTES` more of a body. */
export class IdleTimeout {
  readonly #controller = new AbortController();
  readonly #limitMs: number;
  readonly #clock: Clock;
  readonly #failure: (limitMs: number) => Error;
  #cancel: () => void = () => {};
  #markedMs = 0;
  #bytesSinceMark = 0;
  /** How long the answer took, until its body makes progress. */
  #answerMs: number | undefined;

  /** Begins to count; `failure` makes the reason of the abort. */
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

  /** Gives the body of the first answer a limit of its own. Further answers of the same attempt share it. */
  answered(): void {
    if (this.#answerMs !== undefined) return;
    this.#answerMs = this.#sinceMarkMs();
    this.#mark();
  }

  /** Counts bytes of a body. */
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
