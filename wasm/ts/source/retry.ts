/** Retries after failures that may pass. */

import { hasCode } from "../errors.js";
import type { HttpError, NetworkError, TruncatedError } from "../errors.js";
import type { Clock } from "./clock.js";
import { IdleTimeout } from "./http/idle-timeout.js";
import { isLasting } from "./http/network-failure.js";

/** The first wait is up to this, in milliseconds, and every further one up to twice the one before. */
const FIRST_WAIT_MS = 300;
/** The longest wait that no server has asked for, in milliseconds. */
const MAX_WAIT_MS = 10_000;
/** An attempt that brought this much, in bytes, is not counted as a failure: on a poor line large tensors come in many pieces. */
const PROGRESS_BYTES = 1 << 20;

/** How many times a read is retried by default. */
export const DEFAULT_RETRIES = 3;

/** How many times and for how long a read is attempted. */
export interface RetryLimits {
  /** The maximum number of retries. */
  retries: number;
  /** How long an attempt may go without progress, in milliseconds. */
  idleTimeoutMs: number;
  /** How long all attempts and the waits between them may go without progress, in milliseconds. */
  giveUpAfterMs: number;
}

export interface RetryPolicy extends RetryLimits {
  clock: Clock;
  signal: AbortSignal | undefined;
  /** Returns the most bytes that were held at any time, in all attempts. */
  receivedBytes: () => number;
  /** Returns whether the next attempt may succeed after `error`. */
  shouldRetry: (error: unknown) => boolean;
  /** Makes the error of an attempt that went on for `limitMs` without progress. */
  stalled: (limitMs: number) => Error;
  /** Called before each further attempt. */
  onRetry: () => void;
}

/** Runs `attempt` until it succeeds, fails for good, or fails once more or for longer than the policy allows. */
export async function retrying<T>(attempt: (idle: IdleTimeout) => Promise<T>, policy: RetryPolicy): Promise<T> {
  const { clock, signal, receivedBytes, idleTimeoutMs, giveUpAfterMs } = policy;
  let attempts = 0;
  let failures = 0;
  let idleMs = 0;
  for (;;) {
    signal?.throwIfAborted();
    const beforeBytes = receivedBytes();
    const idle = new IdleTimeout(Math.min(idleTimeoutMs, giveUpAfterMs - idleMs), clock, policy.stalled);
    attempts += 1;
    try {
      return await attempt(idle);
    } catch (error) {
      signal?.throwIfAborted();
      if (!policy.shouldRetry(error)) throw error;
      const progressed = receivedBytes() - beforeBytes >= PROGRESS_BYTES;
      if (progressed) failures = idleMs = 0;
      idleMs += idle.idleMs;
      const pauseMs = waitMs(failures, error, clock);
      if (failures >= policy.retries || idleMs + pauseMs >= giveUpAfterMs) throw spent(error, attempts);
      idle.stop();
      await clock.sleep(pauseMs, signal);
      idleMs += pauseMs;
      if (!progressed) failures += 1;
      policy.onRetry();
    } finally {
      idle.stop();
    }
  }
}

/** Returns whether the next attempt may do better. A server that `hasAnswered` before may come back. */
export function mayPass(error: unknown, hasAnswered: boolean): boolean {
  if (hasCode<NetworkError>(error, "network")) return !isLasting(error, hasAnswered);
  // A body that is too long is a server's mistake, which it will make again.
  if (hasCode<TruncatedError>(error, "truncated")) return error.receivedBytes < error.expectedBytes;
  if (!hasCode<HttpError>(error, "http")) return false;
  const { status } = error;
  return status === 408 || status === 429 || (status >= 500 && status !== 501 && status !== 505);
}

/** Adds to the last error how long the server asks to wait, and that it was not the first. */
function spent(error: unknown, attempts: number): unknown {
  if (!(error instanceof Error)) return error;
  if (hasCode<HttpError>(error, "http") && error.retryAfterMs) error.message += ` The server asks for a wait of ${Math.ceil(error.retryAfterMs / 1000)} s.`;
  if (attempts > 1) error.message += ` (Tried ${attempts} times.)`;
  return error;
}

/**
 * Full jitter: anything from nothing to a limit that doubles each time. Many readers whose server
 * failed at the same moment must not come back at the same moment.
 */
function waitMs(failures: number, error: unknown, clock: Clock): number {
  const ownMs = clock.random() * Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** failures);
  return Math.max(ownMs, hasCode<HttpError>(error, "http") ? (error.retryAfterMs ?? 0) : 0);
}
