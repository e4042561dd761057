/** Retries for any source. HTTP sources have their own retries, which keep the bytes that have arrived. */

import { checkOptions } from "../known-options.js";
import type { OptionNames } from "../known-options.js";
import { ZstnError } from "../errors.js";
import { systemClock } from "./clock.js";
import { atLeast } from "./option.js";
import { DEFAULT_RETRIES, mayPass, retrying } from "./retry.js";
import type { ReadOptions, Source } from "./source.js";
import { withValidation } from "./with-validation.js";

/** Options that control which reads are retried. */
export interface RetryOptions {
  /** The maximum number of retries of a read. 3 by default. */
  retries?: number;
  /**
   * Returns whether the next attempt may succeed after `error`. By default, all errors of other code are retried, and
   * those errors of this package that are transient.
   */
  shouldRetry?: (error: unknown) => boolean;
}

const shouldRetryByDefault = (error: unknown) => !(error instanceof ZstnError) || mayPass(error, true);

/**
 * Returns `source` with failed reads retried: after a random wait of up to 0.3 s, then 0.6 s, and so on up to 10 s. A
 * read that returns too few bytes counts as failed. URLs that are passed to `open` have retries of their own. Throws an
 * `InvalidInputError` for an invalid option.
 */
export function withRetry(source: Source, options: RetryOptions = {}): Source {
  checkOptions("withRetry()", options, { retries: 1, shouldRetry: 1 } satisfies OptionNames<RetryOptions>);
  const { retries = DEFAULT_RETRIES, shouldRetry = shouldRetryByDefault } = options;
  const limits = { retries: atLeast("retries", retries), idleTimeoutMs: Infinity, giveUpAfterMs: Infinity };
  const valid = withValidation(source);
  const attempt = <T>(options: ReadOptions, work: (options: ReadOptions) => Promise<T> | T): Promise<T> => {
    let announcedBytes = 0;
    const once = async () => {
      let receivedBytes = 0;
      const onBytes = (bytes: number) => {
        receivedBytes += bytes;
        if (receivedBytes <= announcedBytes) return;
        options.onBytes?.(receivedBytes - announcedBytes);
        announcedBytes = receivedBytes;
      };
      return work({ ...options, onBytes });
    };
    const unlimited = { stalled: (limitMs: number) => new Error(`received nothing for ${limitMs} ms`), onRetry() {} };
    return retrying(once, { ...limits, ...unlimited, clock: systemClock, signal: options.signal, receivedBytes: () => announcedBytes, shouldRetry });
  };
  return {
    size: (options = {}) => attempt(options, (options) => valid.size(options)),
    read: (offset, length, options = {}) => attempt(options, (options) => valid.read(offset, length, options)),
  };
}
