/** What a browser allows. */

/**
 * Whether this runs in a page or a worker of a browser. There, answers of other origins show some headers only,
 * and requests to them with unusual headers are preceded by a question (preflight).
 */
export function inBrowser(): boolean {
  return globalThis.location !== undefined;
}

/** Whether headers may be missing from what `response` shows. */
export function hidesHeaders(response: Response): boolean {
  return inBrowser() && response.type === "cors";
}
