/** The token fields, one for each server of the models to be opened. */

import { element } from "../page/element.js";
import { hostOf } from "../page/origin.js";
import { strangerWarning } from "../page/access-error.js";
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

  /** Shows a field for each of these servers. Existing fields stay in place, because the user may be typing in one. */
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
    // Password managers would store tokens for this page instead of the token's server. "new-password" keeps them from
    // filling one in.
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
