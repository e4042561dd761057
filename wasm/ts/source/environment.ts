/** The platform's restrictions on requests and responses. */

/**
 * Returns whether this code runs in a page or a worker of a browser. There, cross-origin responses expose only some of
 * their headers, and cross-origin requests with unusual headers need a preflight request.
 */
export function isBrowser(): boolean {
  return globalThis.location !== undefined;
}

/**
 * Returns the options for every request. A browser's HTTP cache could assemble a range from pieces of different
 * versions of a file, and answer a request to a hub with an outdated response. Other platforms have no such cache, and
 * older Cloudflare Workers reject the option.
 */
export const uncached = (): RequestInit => (isBrowser() ? { cache: "no-store" } : {});

/** Returns whether `response` may have headers that the browser does not expose to this code. */
export function headersMayBeHidden(response: Response): boolean {
  return isBrowser() && response.type === "cors";
}
