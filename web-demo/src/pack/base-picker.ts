/** The control that chooses the base that a fine-tune is packed against. */

import { button, element } from "../page/element.js";

/** Lets the user choose a file, and shows the chosen one. */
export class BasePicker {
  readonly node = element("div", { class: "choice base-picker", role: "group", "aria-label": "Base model" });
  readonly #input = element("input", { type: "file", id: "pack-base", class: "unseen", accept: ".safetensors,.zstn" });
  #file: File | undefined;

  constructor() {
    this.#input.addEventListener("change", () => {
      const file = this.#input.files?.[0];
      this.#input.value = "";
      if (file) this.#choose(file);
    });
    this.#choose(undefined);
  }

  /** The chosen file; `undefined` if there is none. */
  get file(): File | undefined {
    return this.#file;
  }

  #choose(file: File | undefined): void {
    const hadFocus = this.node.contains(document.activeElement);
    this.#file = file;
    const label = element("span", {}, "Base");
    if (!file) {
      const choose = element("label", { class: "button small", htmlFor: this.#input.id }, "Choose a base…");
      this.node.replaceChildren(label, this.#input, choose);
      if (hadFocus) this.#input.focus();
      return;
    }
    const remove = button("Remove", () => this.#choose(undefined), { class: "button small", "aria-label": `Remove the base ${file.name}` });
    this.node.replaceChildren(label, element("span", { class: "base-name mono", title: file.name }, file.name), remove);
    if (hadFocus) remove.focus();
  }
}
