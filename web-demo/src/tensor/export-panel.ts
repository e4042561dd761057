/** The export of a tensor: code that reads it, and downloads. */

import type { Engine } from "../engine/client.js";
import type { ModelSource, Reference, SaveFormat } from "../engine/protocol.js";
import { button, select, element } from "../page/element.js";
import { announce, showError } from "../page/notice.js";
import { downloadBlob } from "../page/download.js";
import type { Activities } from "../network/activity.js";
import { LANGUAGES, codeFor } from "./code-snippet.js";
import type { Language } from "./code-snippet.js";

const FORMATS: readonly SaveFormat[] = ["npy", "bin", "safetensors"];

export interface ExportPanelOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly of: Reference;
  readonly source: ModelSource;
  readonly name: string;
  readonly base?: ModelSource | undefined;
}

export function exportPanel({ engine, activities, of, source, name, base }: ExportPanelOptions): HTMLElement {
  let language: Language = "javascript";
  const code = element("code", {});
  const show = () => (code.textContent = codeFor(language, of.tensor, source, name, base));
  show();
  const chosen = select("Language", LANGUAGES, language, (value) => {
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
      downloadBlob(blob, `${of.tensor.replace(/[^\w.-]+/g, "_") || "tensor"}.${format}`);
    } catch (error) {
      showError(error);
    }
  };
  return element(
    "section",
    { class: "card wide" },
    element("div", { class: "card-head" }, element("h2", {}, "Export"), element("div", { class: "buttons" }, element("span", { class: "quiet" }, "Download"), ...FORMATS.map((format) => button(`.${format}`, () => void save(format), { class: "button small", "aria-label": `Download as .${format}` })))),
    element("div", { class: "code-head" }, chosen, copy),
    element("pre", { tabIndex: 0, "aria-label": "Code that reads this tensor" }, code),
  );
}
