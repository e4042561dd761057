/** A clock that stands still until a test moves it. */

export function fakeClock() {
  let nowMs = 0;
  const timers = new Set();
  const clock = {
    now: () => nowMs,
    elapsedMs: () => nowMs,
    random: () => 1,
    after(durationMs, work) {
      const timer = { atMs: nowMs + durationMs, work };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async sleep(durationMs) {
      clock.pass(durationMs);
    },
    /** Lets time pass, and what is due happen; stops when `signal` aborts. */
    pass(durationMs, signal) {
      const untilMs = nowMs + durationMs;
      while (!signal?.aborted) {
        const [next] = [...timers].filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs);
        nowMs = next ? next.atMs : untilMs;
        if (!next) return;
        timers.delete(next);
        next.work();
      }
    },
  };
  return clock;
}
