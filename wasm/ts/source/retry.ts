/** Trying again what failed for a reason that may pass. */

import { HttpError, NetworkError, TruncatedError } from "../errors.js";
import type { Clock } from "./clock.js";

/** The first wait is up to this, in milliseconds, and every further one up to twice the one before. */
const FIRST_WAIT_MS = 300;
/** The longest wait of our own accord, in milliseconds. */
const MOST_WAIT_MS = 10_000;
/** The longest wait because a server asks for it, in milliseconds: people give up before that. */
const MOST_RETRY_AFTER_MS = 60_000;
/** An attempt that brought this much was no failure to be counted: on a poor line large tensors come in many pieces. */
const PROGRESS_BYTES = 1 << 20;

export interface RetryPolicy {
  /** How often something is tried again, at most. */
  retries: number;
  clock: Clock;
  signal: AbortSignal | undefined;
  /** Bytes that have arrived for good so far, in all attempts. */
  receivedBytes: () => number;
  /** Called before each further attempt. */
  onRetry: () => void;
}

/** Runs `attempt` until it succeeds, fails for good, or has failed once more than the policy allows. */
export async function retrying<T>(attempt: () => Promise<T>, policy: RetryPolicy): Promise<T> {
  const { clock, signal, receivedBytes } = policy;
  let failures = 0;
  for (;;) {
    signal?.throwIfAborted();
    const beforeBytes = receivedBytes();
    try {
      return await attempt();
    } catch (error) {
      signal?.throwIfAborted();
      if (!mayPass(error)) throw error;
      const progressed = receivedBytes() - beforeBytes >= PROGRESS_BYTES;
      if (progressed) failures = 0;
      if (failures >= policy.retries) throw error;
      await clock.sleep(waitMs(failures, error, clock), signal);
      if (!progressed) failures += 1;
      policy.onRetry();
    }
  }
}

/** Whether the next attempt may do better. */
export function mayPass(error: unknown): boolean {
  if (error instanceof NetworkError) return true;
  // A body that is too long is a server's mistake, which it will make again.
  if (error instanceof TruncatedError) return error.receivedBytes < error.expectedBytes;
  if (!(error instanceof HttpError)) return false;
  const { status } = error;
  return status === 408 || status === 429 || (status >= 500 && status !== 501 && status !== 505);
}

/**
 * Full jitter: anything from nothing to a limit that doubles each time. Many readers whose server
 * failed at the same moment must not come back at the same moment.
 */
function waitMs(failures: number, error: unknown, clock: Clock): number {
  const ownMs = clock.random() * Math.min(MOST_WAIT_MS, FIRST_WAIT_MS * 2 ** failures);
  const askedMs = error instanceof HttpError ? (error.retryAfterMs ?? 0) : 0;
  return Math.max(ownMs, Math.min(askedMs, MOST_RETRY_AFTER_MS));
}
