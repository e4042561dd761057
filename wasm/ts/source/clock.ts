/** Time and chance, behind an interface so that tests can bring their own. */

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** From 0 to 1, without 1. */
  random(): number;
  /** Resolves after a while; rejects with the reason of `signal` at once when that aborts. */
  sleep(durationMs: number, signal: AbortSignal | undefined): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  random: () => Math.random(),
  sleep: (durationMs, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const wake = () => {
        signal?.removeEventListener("abort", stop);
        resolve();
      };
      const stop = () => {
        clearTimeout(timer);
        reject(signal!.reason);
      };
      const timer = setTimeout(wake, durationMs);
      signal?.addEventListener("abort", stop, { once: true });
    }),
};
