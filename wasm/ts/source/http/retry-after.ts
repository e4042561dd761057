/** Parses the header `Retry-After` (RFC 9110, section 10.2.3): a number of seconds, or a date. */

import { parseHttpDate } from "./date.js";

/** Returns the time to wait from `nowMs` on, in milliseconds; `undefined` if the header is neither a number nor a date. */
export function parseRetryAfter(header: string | null, nowMs: number): number | undefined {
  const text = header?.trim() ?? "";
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, Number.MAX_SAFE_INTEGER);
  const dateMs = parseHttpDate(text);
  return dateMs === undefined ? undefined : Math.max(0, dateMs - nowMs);
}
