/** Records the servers in use, and whether the user or a link named them first. */

import { webOrigin } from "../page/origin.js";
import { HUGGING_FACE, isRepository } from "./parse-input.js";

/** Returns the origin of the first request that opening `text` makes; `undefined` if there is none. */
export function originOf(text: string): string | undefined {
  const trimmed = text.trim();
  return isRepository(trimmed) ? HUGGING_FACE : webOrigin(trimmed, document.baseURI);
}

/** Records whether the user or a link named a server first. */
export class Origins {
  readonly #namedBy = new Map<string, "link" | "person">();

  named(origin: string | undefined, by: "link" | "person"): void {
    if (origin !== undefined && !this.#namedBy.has(origin)) this.#namedBy.set(origin, by);
  }

  /** Returns whether only a link has named this server. Hugging Face and the page's own server are never strange. */
  isStrange(origin: string): boolean {
    return this.#namedBy.get(origin) === "link" && origin !== HUGGING_FACE && origin !== location.origin;
  }
}
