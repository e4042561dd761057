/** Time and randomness as an interface, so that tests can replace them. */

export interface Clock {
  /** Returns milliseconds since 1970. */
  now(): number;
  /** Returns milliseconds since an arbitrary moment. Unlike `now`, it never decreases. */
  elapsedMs(): number;
  /** Returns a random number from 0 (inclusive) to 1 (exclusive). */
  random(): number;
  /** Runs `work` after `durationMs`, unless the returned function is called first. */
  after(durationMs: number, work: () => void): () => void;
  /** Resolves after `durationMs`. Rejects with the reason of `signal` as soon as the signal aborts. */
  sleep(durationMs: number, signal: AbortSignal | undefined): Promise<void>;
}

/** The longest duration that timers support, in milliseconds: 24 days. A timer with a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  elapsedMs: () => performance.now(),
  random: () => Math.random(),
  after(durationMs, work) {
    const timer = setTimeout(work, Math.min(durationMs, MAX_TIMER_MS));
    return () => clearTimeout(timer);
  },
  sleep: (durationMs, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const wake = () => {
        signal?.removeEventListener("abort", stop);
        resolve();
      };
      const cancel = systemClock.after(durationMs, wake);
      const stop = () => {
        cancel();
        reject(signal!.reason);
      };
      signal?.addEventListener("abort", stop, { once: true });
    }),
};
