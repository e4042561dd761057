/** Time and chance, behind an interface so that tests can bring their own. */

export interface Clock {
  /** Returns milliseconds since 1970. */
  now(): number;
  /** Returns milliseconds since some moment; unlike `now` it never goes back. */
  elapsedMs(): number;
  /** Returns a number from 0 to 1, without 1. */
  random(): number;
  /** Runs `work` after a while, unless the function returned is called before. */
  after(durationMs: number, work: () => void): () => void;
  /** Resolves after a while; rejects with the reason of `signal` at once when that aborts. */
  sleep(durationMs: number, signal: AbortSignal | undefined): Promise<void>;
}

/** The longest time that timers can count, in milliseconds: 24 days. A longer one would end at once. */
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
