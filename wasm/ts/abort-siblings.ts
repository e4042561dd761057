/** Concurrent reads that are aborted together when one of them fails. */

/**
 * The controllers that abort with each signal. All of them share one listener on the signal: Node warns about more than
 * ten listeners, and each call of `AbortSignal.any` retains a little memory for as long as the signal lives.
 */
const followers = /* @__PURE__ */ new WeakMap<AbortSignal, Set<AbortController>>();

/**
 * Runs `start` with a signal for its reads, which aborts as soon as any of `signals` aborts. When one of the reads
 * fails, the signal aborts the others.
 */
export async function abortSiblingsOnFailure<T>(signals: readonly (AbortSignal | undefined)[], start: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const reads = new AbortController();
  const followed = signals.filter((signal) => signal !== undefined);
  for (const signal of followed) {
    signal.throwIfAborted();
    followersOf(signal).add(reads);
  }
  try {
    return await start(reads.signal);
  } catch (error) {
    reads.abort(error);
    throw error;
  } finally {
    for (const signal of followed) followersOf(signal).delete(reads);
  }
}

function followersOf(signal: AbortSignal): Set<AbortController> {
  let all = followers.get(signal);
  if (!all) {
    const added = (all = new Set<AbortController>());
    followers.set(signal, added);
    signal.addEventListener("abort", () => added.forEach((reads) => reads.abort(signal.reason)), { once: true });
  }
  return all;
}
