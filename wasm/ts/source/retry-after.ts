/** The header `Retry-After` (RFC 9110, section 10.2.3): a number of seconds, or a date. */

/** How long to wait from `nowMs` on, in milliseconds; `undefined` for anything that is neither. */
export function parseRetryAfter(header: string | null, nowMs: number): number | undefined {
  const text = header?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  // `Date.parse` takes nearly anything for a date; those of HTTP begin with a weekday and end with a zone.
  if (!/^[A-Z][a-z]+,? .*\d{2}:\d{2}:\d{2}/.test(text)) return undefined;
  const dateMs = Date.parse(/ GMT$/.test(text) ? text : `${text} GMT`);
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - nowMs);
}
