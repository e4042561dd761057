/** What the platform shows of responses. */

/**
 * Returns whether this runs in a page or a worker of a browser. There, cross-origin responses expose only some of their
 * headers, and cross-origin requests with unusual headers cost a preflight.
 */
export function isBrowser(): boolean {
  return globalThis.location !== undefined;
}

/** Returns whether `response` may have headers that it does not expose. */
export function headersMayBeHidden(response: Response): boolean {
  return isBrowser() && response.type === "cors";
}
