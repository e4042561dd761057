/** Divides long work of a thread, so that the thread handles other events in between. */

/** The time after which a slice of work ends, in milliseconds. */
const SLICE_MS = 12;
/** The number of steps that are always done together, so that short work is done at once even by a slow machine. */
const STEPS = 2000;

/** Work that yields after each step. */
export type Steps<T> = Generator<undefined, T, undefined>;

/** Runs all steps of a work, and returns its result. */
export function atOnce<T>(work: Steps<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

export class Turns {
  #begin = performance.now();
  #steps = 0;

  /** Counts steps of the work. Returns whether the slice has lasted long enough, so that the work should wait for `next`. */
  isOver(steps = 1): boolean {
    this.#steps += steps;
    if (this.#steps < STEPS) return false;
    this.#steps = 0;
    return performance.now() - this.#begin > SLICE_MS;
  }

  /** Runs work that yields after each step, in slices. Rejects if `signal` is aborted in between. */
  async run<T>(work: Steps<T>, signal?: AbortSignal): Promise<T> {
    for (;;) {
      const { done, value } = work.next();
      if (done) return value;
      if (this.isOver()) await this.next(signal);
    }
  }

  /** Resolves after the events that are waiting have been handled. Rejects if `signal` is aborted by then. */
  async next(signal?: AbortSignal): Promise<void> {
    // Unlike timers, messages are not throttled in background tabs.
    const { port1, port2 } = new MessageChannel();
    await new Promise((resolve) => {
      port1.onmessage = resolve;
      port2.postMessage(undefined);
    });
    port1.close();
    signal?.throwIfAborted();
    this.#begin = performance.now();
  }
}
