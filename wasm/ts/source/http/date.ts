/** Dates of HTTP (RFC 9110, section 5.6.7). */

/** Returns milliseconds since 1970, or `undefined` for anything that is not such a date. */
export function parseHttpDate(text: string): number | undefined {
  // `Date.parse` takes nearly anything for a date; those of HTTP begin with a weekday and end with a zone.
  if (!/^[A-Z][a-z]+,? .*\d{2}:\d{2}:\d{2}/.test(text)) return undefined;
  const dateMs = Date.parse(/ GMT$/.test(text) ? text : `${text} GMT`);
  return Number.isNaN(dateMs) ? undefined : dateMs;
}
