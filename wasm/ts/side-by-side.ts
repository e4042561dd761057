/** Several reads at the same time. */

/** Runs `start`, whose reads take the signal it is given: when one fails the others are stopped. */
export async function sideBySide<T>(signal: AbortSignal | undefined, start: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const failed = new AbortController();
  try {
    return await start(signal ? AbortSignal.any([signal, failed.signal]) : failed.signal);
  } catch (error) {
    failed.abort(error);
    throw error;
  }
}
