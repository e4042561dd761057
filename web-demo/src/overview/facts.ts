/** What else is known of a model: tied tensors, metadata, what cannot be read. */

import type { TensorInfo } from "zstn";
import type { ModelSummary } from "../engine/protocol.js";
import { button, element } from "../page/element.js";
import { formatBytes, plural } from "../page/format.js";

/** Longer lists are cut; the search finds the rest. */
const MOST_LISTED = 50;

export function tied({ tensors }: ModelSummary, onPick: (tensor: TensorInfo) => void): HTMLElement | undefined {
  const shared = tensors.filter(({ aliasOf }) => aliasOf !== undefined);
  if (shared.length === 0) return undefined;
  const saved = shared.reduce((sum, { storedLength }) => sum + storedLength, 0);
  const items = shared.slice(0, MOST_LISTED).map((tensor) =>
    element("li", {}, button(tensor.name, () => onPick(tensor), { class: "link" }), element("span", { class: "quiet" }, ` shares the bytes of ${tensor.aliasOf}`)),
  );
  return card(`Tied tensors`, `${plural(shared.length, "tensor")} stored once with another, which saves ${formatBytes(saved)}.`, element("ul", { class: "plain" }, ...items));
}

export function metadata({ metadata: entries }: ModelSummary): HTMLElement {
  const names = Object.keys(entries);
  if (names.length === 0) return card("Metadata", "The file carries none.");
  const rows = names.map((name) => element("div", {}, element("dt", {}, name), element("dd", {}, entries[name]!)));
  return card("Metadata", undefined, element("dl", { class: "metadata", tabIndex: 0, "aria-label": "Metadata" }, ...rows));
}

export function unreadable({ unreadable: list }: ModelSummary): HTMLElement | undefined {
  if (list.length === 0) return undefined;
  const items = list.slice(0, MOST_LISTED).map(([name, why]) => element("li", {}, element("b", {}, name), ` ${why}`));
  return card("Cannot be read", `${plural(list.length, "tensor")} of this model ${list.length === 1 ? "is" : "are"} damaged or of an unknown kind; the rest can be read.`, element("ul", { class: "plain" }, ...items));
}

function card(title: string, words: string | undefined, content?: HTMLElement): HTMLElement {
  return element("section", { class: "card" }, element("h2", {}, title), words !== undefined && element("p", { class: "quiet" }, words), content);
}
