/** What the platform shows of responses. */

/**
 * Returns whether this runs in a page or a worker of a browser. There, cross-origin responses expose only some of their
 * headers, and cross-origin requests with unusual headers cost a preflight.
 */
export function isBrowser(): boolean {
  return globalThis.location !== undefined;
}

/**
 * Returns the options of every request. A browser's cache would answer a range in pieces, of which some may be of an older
 * file, and a question to a hub with an older answer. Elsewhere there is no such cache, and older Cloudflare Workers refuse the option.
 */
export const uncached = (): RequestInit => (isBrowser() ? { cache: "no-store" } : {});

/** Returns whether `response` may have headers that it does not expose. */
export function headersMayBeHidden(response: Response): boolean {
  return isBrowser() && response.type === "cors";
}
