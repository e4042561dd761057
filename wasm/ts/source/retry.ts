/** Retries operations after transient failures. */

import { hasCode } from "../errors.js";
import type { HttpError, NetworkError, TruncatedError } from "../errors.js";
import type { Clock } from "./clock.js";
import { IdleTimeout } from "./http/idle-timeout.js";
import { isLasting } from "./http/network-failure.js";

/** The upper limit of the first wait, in milliseconds. Each further wait may be up to twice as long as the one before. */
const FIRST_WAIT_MS = 300;
/** The longest wait unless the server requests a longer one, in milliseconds. */
const MAX_WAIT_MS = 10_000;
/**
 * An attempt that received this many bytes does not count as a failure: on a poor connection, a large tensor takes many
 * attempts.
 */
const PROGRESS_BYTES = 1 << 20;

/** The default number of retries of a read. */
export const DEFAULT_RETRIES = 3;

/** Limits on the number and the duration of the attempts of a read. */
export interface RetryLimits {
  /** The maximum number of retries. */
  retries: number;
  /** The longest time that an attempt may take without progress, in milliseconds. */
  idleTimeoutMs: number;
  /** The longest time that all attempts and the waits between them may take without progress, in milliseconds. */
  giveUpAfterMs: number;
}

export interface RetryPolicy extends RetryLimits {
  clock: Clock;
  signal: AbortSignal | undefined;
  /** Returns the highest number of bytes received so far, over all attempts. */
  receivedBytes: () => number;
  /** Returns whether the next attempt may succeed after `error`. */
  shouldRetry: (error: unknown) => boolean;
  /** Creates the error for an attempt that made no progress for `limitMs`. */
  stalled: (limitMs: number) => Error;
  /** Called before each further attempt. */
  onRetry: () => void;
}

/** Runs `attempt` until it succeeds, fails permanently, or exceeds the policy's number of failures or time without progress. */
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

/**
 * Returns whether `error` is transient, so that the next attempt may succeed. `hasAnswered` is true if the server has
 * responded before, which makes a network failure more likely to be temporary.
 */
export function mayPass(error: unknown, hasAnswered: boolean): boolean {
  if (hasCode<NetworkError>(error, "network")) return !isLasting(error, hasAnswered);
  // A server that sends too many bytes will make the same mistake again.
  if (hasCode<TruncatedError>(error, "truncated")) return error.receivedBytes < error.expectedBytes;
  if (!hasCode<HttpError>(error, "http")) return false;
  const { status } = error;
  return status === 408 || status === 429 || (status >= 500 && status !== 501 && status !== 505);
}

/** Returns the last error, with the wait that the server requests and the number of attempts added to its message. */
function spent(error: unknown, attempts: number): unknown {
  if (!(error instanceof Error)) return error;
  if (hasCode<HttpError>(error, "http") && error.retryAfterMs) error.message += ` The server requests a wait of ${Math.ceil(error.retryAfterMs / 1000)} s.`;
  if (attempts > 1) error.message += ` (Tried ${attempts} times.)`;
  return error;
}

/**
 * Returns the next wait in milliseconds, with full jitter: a random time between zero and a limit that doubles with
 * each failure. Clients whose server failed at the same moment must not all return at the same moment. A longer wait
 * that the server requests takes precedence.
 */
function waitMs(failures: number, error: unknown, clock: Clock): number {
  const ownMs = clock.random() * Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** failures);
  return Math.max(ownMs, hasCode<HttpError>(error, "http") ? (error.retryAfterMs ?? 0) : 0);
}
