/** The cards of the overview: tied tensors, metadata, unreadable weights. */

import type { TensorInfo } from "zstn";
import { button, element } from "../page/element.js";
import { formatBytes, formatCount, plural } from "../page/format.js";
import type { OpenedModel } from "../page/opened-model.js";

/** The maximum number of metadata that are shown. */
const MAX_METADATA = 500;

export function tied({ tensors: table, figures }: OpenedModel, onPick: (tensor: TensorInfo) => void): HTMLElement | undefined {
  const { tensors, savedBytes, listed } = figures.tied;
  if (tensors === 0) return undefined;
  const items = listed.map(({ name, aliasOf }) =>
    element("li", {}, button(name, () => onPick(table.find(name)!), { class: "link" }), element("span", { class: "quiet" }, ` same data as ${aliasOf || "(no name)"}`)),
  );
  return card(`Tied tensors`, `${plural(tensors, "tied tensor")} ${tensors === 1 ? "is" : "are"} stored once, saving ${formatBytes(savedBytes)}.`, element("ul", { class: "plain" }, ...items));
}

export function metadata({ metadata: entries }: OpenedModel): HTMLElement {
  const names = Object.keys(entries);
  if (names.length === 0) return card("Metadata", "No metadata.");
  const rows = names.slice(0, MAX_METADATA).map((name) => element("div", {}, element("dt", {}, name), element("dd", {}, entries[name]!)));
  const more = names.length - rows.length;
  return card("Metadata", more > 0 ? `The first ${rows.length} of ${formatCount(names.length)}.` : undefined, element("dl", { class: "metadata", tabIndex: 0, "aria-label": "Metadata" }, ...rows));
}

export function unreadable({ unreadable: { tensors, listed } }: OpenedModel): HTMLElement | undefined {
  if (tensors === 0) return undefined;
  const items = listed.map(([name, why]) => element("li", {}, element("b", {}, name), ` ${why}`));
  return card("Cannot be read", `${plural(tensors, "tensor")} of this model ${tensors === 1 ? "is" : "are"} damaged or of an unknown kind; the rest can be read.`, element("ul", { class: "plain" }, ...items));
}

function card(title: string, words: string | undefined, content?: HTMLElement): HTMLElement {
  return element("section", { class: "card" }, element("h2", {}, title), words !== undefined && element("p", { class: "quiet" }, words), content);
}
