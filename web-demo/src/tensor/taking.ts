/** Taking a tensor along: as code that reads it, or as a file. */

import type { Engine } from "../engine/client.js";
import type { Place, Reference, SaveFormat } from "../engine/protocol.js";
import { button, choice, element } from "../page/element.js";
import { announce, showError } from "../page/notice.js";
import { saveBlob } from "../page/saving.js";
import type { Activities } from "../wire/activity.js";
import { LANGUAGES, codeFor } from "./code.js";
import type { Language } from "./code.js";

const FORMATS: readonly SaveFormat[] = ["npy", "bin", "safetensors"];

export interface TakingOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly of: Reference;
  readonly place: Place;
  readonly name: string;
  readonly base?: Place | undefined;
}

export function taking({ engine, activities, of, place, name, base }: TakingOptions): HTMLElement {
  let language: Language = "javascript";
  const code = element("code", {});
  const show = () => (code.textContent = codeFor(language, of.tensor, place, name, base));
  show();
  const chosen = choice("Language", LANGUAGES, language, (value) => {
    language = value as Language;
    show();
  });
  const copy = button("Copy", () => {
    navigator.clipboard.writeText(code.textContent ?? "").then(
      () => announce("The code has been copied."),
      () => {
        getSelection()?.selectAllChildren(code);
        announce("The code is selected; copy it with the keyboard.");
      },
    );
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  const save = async (format: SaveFormat) => {
    try {
      const blob = await activities.run(`Saving ${of.tensor}`, (options) => engine.call("save", { of, format }, options));
      saveBlob(blob, `${of.tensor.replace(/[^\w.-]+/g, "_") || "tensor"}.${format}`);
    } catch (error) {
      showError(error);
    }
  };
  return element(
    "section",
    { class: "card wide" },
    element("div", { class: "card-head" }, element("h2", {}, "Take it along"), element("div", { class: "buttons" }, element("span", { class: "quiet" }, "Download"), ...FORMATS.map((format) => button(`.${format}`, () => void save(format), { class: "button small", "aria-label": `Download as .${format}` })))),
    element("div", { class: "code-head" }, chosen, copy),
    element("pre", { tabIndex: 0, "aria-label": "Code that reads this tensor" }, code),
  );
}
