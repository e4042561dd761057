/** The cards of the overview: tied tensors, metadata, unreadable weights. */

import type { TensorInfo } from "zstn";
import type { ModelSummary } from "../engine/protocol.js";
import { button, element } from "../page/element.js";
import { formatBytes, plural } from "../page/format.js";

/** The maximum number of items in a list. The search finds the rest. */
const MAX_LISTED = 50;

export function tied({ tensors }: ModelSummary, onPick: (tensor: TensorInfo) => void): HTMLElement | undefined {
  const tiedTensors = tensors.filter(({ aliasOf }) => aliasOf !== undefined);
  if (tiedTensors.length === 0) return undefined;
  const saved = tiedTensors.reduce((sum, { storedLength }) => sum + storedLength, 0);
  const items = tiedTensors.slice(0, MAX_LISTED).map((tensor) =>
    element("li", {}, button(tensor.name, () => onPick(tensor), { class: "link" }), element("span", { class: "quiet" }, ` same data as ${tensor.aliasOf || "(no name)"}`)),
  );
  return card(`Tied tensors`, `${plural(tiedTensors.length, "tied tensor")} ${tiedTensors.length === 1 ? "is" : "are"} stored once, saving ${formatBytes(saved)}.`, element("ul", { class: "plain" }, ...items));
}

export function metadata({ metadata: entries }: ModelSummary): HTMLElement {
  const names = Object.keys(entries);
  if (names.length === 0) return card("Metadata", "No metadata.");
  const rows = names.map((name) => element("div", {}, element("dt", {}, name), element("dd", {}, entries[name]!)));
  return card("Metadata", undefined, element("dl", { class: "metadata", tabIndex: 0, "aria-label": "Metadata" }, ...rows));
}

export function unreadable({ unreadable: list }: ModelSummary): HTMLElement | undefined {
  if (list.length === 0) return undefined;
  const items = list.slice(0, MAX_LISTED).map(([name, why]) => element("li", {}, element("b", {}, name), ` ${why}`));
  return card("Cannot be read", `${plural(list.length, "tensor")} of this model ${list.length === 1 ? "is" : "are"} damaged or of an unknown kind; the rest can be read.`, element("ul", { class: "plain" }, ...items));
}

function card(title: string, words: string | undefined, content?: HTMLElement): HTMLElement {
  return element("section", { class: "card" }, element("h2", {}, title), words !== undefined && element("p", { class: "quiet" }, words), content);
}
