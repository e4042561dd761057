/** Concurrent reads that end together. */

/** The controllers that follow each signal. One listener serves all of them: Node warns of more than ten, and `AbortSignal.any` keeps a little memory per call for as long as the signal lives. */
const followers = /* @__PURE__ */ new WeakMap<AbortSignal, Set<AbortController>>();

/**
 * Runs `start` with a signal for its reads, which aborts with any of `signals`. When one of the reads fails, the others
 * are aborted.
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
