/** Returns a clock that a test advances. */

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
    /** Advances the time and runs due timers. Stops when `signal` aborts. */
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
