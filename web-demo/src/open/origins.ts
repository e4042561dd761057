/** The servers that a person deals with: which ones, and who brought them up. */

import { webOrigin } from "../page/origin.js";
import { HUGGING_FACE, understand } from "./source-text.js";

/** The server that is asked first when `text` is opened; `undefined` where that asks no server. */
export function originOf(text: string, hub?: string): string | undefined {
  const source = understand(text, hub);
  return webOrigin(source.kind === "repository" ? source.hub : source.address, document.baseURI);
}

/** Who named a server first: a link, or the person. */
export class Origins {
  readonly #namedBy = new Map<string, "link" | "person">();

  named(origin: string | undefined, by: "link" | "person"): void {
    if (origin !== undefined && !this.#namedBy.has(origin)) this.#namedBy.set(origin, by);
  }

  /** Whether a link alone leads to that server, which is neither Hugging Face nor the one of this page. */
  isStrange(origin: string): boolean {
    return this.#namedBy.get(origin) === "link" && origin !== HUGGING_FACE && origin !== location.origin;
  }
}
