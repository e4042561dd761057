/** Fields for access tokens: one for each server that what is about to be opened comes from. */

import { element } from "../page/element.js";
import { hostOf } from "../page/origin.js";
import { strangerWarning } from "../page/refusal.js";
import type { Origins } from "./origins.js";
import type { Tokens } from "./tokens.js";

export class TokenFields {
  readonly #node: HTMLElement;
  readonly #tokens: Tokens;
  readonly #origins: Origins;
  #fields = new Map<string, HTMLElement>();

  constructor(node: HTMLElement, tokens: Tokens, origins: Origins) {
    this.#node = node;
    this.#tokens = tokens;
    this.#origins = origins;
  }

  /** A field for each of these servers. One that stays is left where it is: someone may be about to type into it. */
  show(origins: readonly string[]): void {
    for (const [origin, field] of this.#fields) if (!origins.includes(origin)) field.remove();
    this.#fields = new Map(origins.map((origin) => [origin, this.#fields.get(origin) ?? this.#field(origin)]));
    [...this.#fields.values()].forEach((field, i) => {
      const there = this.#node.children[i] ?? null;
      if (there !== field) this.#node.insertBefore(field, there);
    });
  }

  focus(origin: string): void {
    this.#fields.get(origin)?.querySelector("input")?.focus();
  }

  #field(origin: string): HTMLElement {
    const host = hostOf(origin);
    // Browsers that keep passwords file them under this page, whichever server they are for: "new-password" has none filled in.
    const input = element("input", { type: "password", autocomplete: "new-password", spellcheck: false, placeholder: "for private or gated models", value: this.#tokens.at(origin) ?? "" });
    input.addEventListener("input", () => this.#tokens.set(origin, input.value));
    return element(
      "div",
      { class: "field" },
      element("label", { class: "field" }, element("span", {}, "Access token for ", element("b", {}, host)), input),
      element("p", { class: "quiet" }, `Never stored. Sent only to ${host}.`),
      this.#origins.isStrange(origin) && strangerWarning(host),
    );
  }
}
