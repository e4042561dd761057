/** Concurrent reads that fail together. */

/** Runs `start` with a signal for its reads. When one of them fails, the others are aborted. */
export async function abortSiblingsOnFailure<T>(signal: AbortSignal | undefined, start: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const failed = new AbortController();
  try {
    return await start(signal ? AbortSignal.any([signal, failed.signal]) : failed.signal);
  } catch (error) {
    failed.abort(error);
    throw error;
  }
}
