/** Parses the dates of HTTP (RFC 9110, section 5.6.7). */

/** Returns the date in milliseconds since 1970; `undefined` if `text` is not such a date. */
export function parseHttpDate(text: string): number | undefined {
  // `Date.parse` accepts nearly any text. The dates of HTTP begin with a weekday and end with a time zone.
  if (!/^[A-Z][a-z]+,? .*\d{2}:\d{2}:\d{2}/.test(text)) return undefined;
  const dateMs = Date.parse(/ GMT$/.test(text) ? text : `${text} GMT`);
  return Number.isNaN(dateMs) ? undefined : dateMs;
}
