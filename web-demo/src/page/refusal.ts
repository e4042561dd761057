/** Servers that do not let the page read: they want a token, or another one. */

import { EngineError } from "../engine/client.js";
import { element } from "./element.js";
import { hostOf } from "./origin.js";

/** What a server refused, and with which status. */
export class Refusal extends Error {
  readonly origin: string;
  readonly status: number;

  constructor(message: string, origin: string, status: number) {
    super(message);
    this.name = "Refusal";
    this.origin = origin;
    this.status = status;
  }
}

/** The refusal that `error` is; `undefined` for other errors. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return error;
  if (!(error instanceof EngineError) || error.url === undefined || (error.status !== 401 && error.status !== 403)) return undefined;
  const { origin, pathname } = new URL(error.url);
  return new Refusal(`${hostOf(origin)} did not let this page read ${pathname.slice(pathname.lastIndexOf("/") + 1)} (status ${error.status}).`, origin, error.status);
}

/** Nobody should take a server that a link names for Hugging Face. */
export function strangerWarning(host: string): HTMLElement {
  return element("p", { class: "warning" }, "This link reads from ", element("b", {}, host), ", not Hugging Face. Add a token only if you trust it.");
}
