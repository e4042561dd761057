/** Resolves addresses relative to the page, in a page or a worker. */

import { InvalidInputError } from "./errors.js";

/**
 * Returns `address` as a URL that can be fetched. A relative address is resolved against the page. Throws an
 * `InvalidInputError` for other schemes than http:, https: and blob:.
 */
export function pageAddress(address: string | URL): URL {
  // A worker has a location but no document.
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  if (!URL.canParse(address, base)) throw new InvalidInputError(`${String(address)} is not a valid address.`);
  const url = new URL(address, base);
  if (/^(https?|blob):$/.test(url.protocol)) return url;
  throw new InvalidInputError(`Cannot read ${url.protocol} addresses; use http: or https:, or let a person choose the file.`);
}
