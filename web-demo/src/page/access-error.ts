/** Errors of servers that refuse access without a token, or with the token that was sent. */

import { EngineError } from "../engine/client.js";
import { element } from "./element.js";
import { hostOf } from "./origin.js";

/** The error for a refused request that another access token may allow. */
export class AccessError extends Error {
  readonly origin: string;
  readonly status: number;

  constructor(message: string, origin: string, status: number) {
    super(message);
    this.name = "AccessError";
    this.origin = origin;
    this.status = status;
  }
}

/** Returns the `AccessError` for a refusal of a hub, or for a response with status 401 or 403; `undefined` for other errors. */
export function accessErrorOf(error: unknown): AccessError | undefined {
  if (error instanceof AccessError) return error;
  if (!(error instanceof EngineError) || error.status === undefined) return undefined;
  const { name, message, status, url, origin: refusing } = error;
  if (refusing !== undefined) return new AccessError(message, refusing, status);
  // The other errors of a hub explain themselves, and no token helps.
  if (url === undefined || name === "HubError" || (status !== 401 && status !== 403)) return undefined;
  const { origin, pathname } = new URL(url);
  return new AccessError(`${hostOf(origin)} did not let this page read ${pathname.slice(pathname.lastIndexOf("/") + 1)} (status ${status}).`, origin, status);
}

/** Returns a warning about a server that a link named, so that it is not mistaken for Hugging Face. */
export function strangerWarning(host: string): HTMLElement {
  return element("p", { class: "warning" }, "This link reads from ", element("b", {}, host), ", not Hugging Face. Add a token only if you trust it.");
}
