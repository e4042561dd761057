/** A model at a glance. */

import type { TensorInfo } from "zstn";
import type { ModelSummary } from "../engine/protocol.js";
import { button, element } from "../page/element.js";
import { treeOf } from "../tree/node.js";
import { metadata, tied, unreadable } from "./facts.js";
import { byDtype, totals } from "./totals.js";
import { Treemap } from "./treemap.js";

export interface OverviewActions {
  onPick: (tensor: TensorInfo) => void;
  onCompare: () => void;
  onForgetSecond: () => void;
}

export function overview(first: ModelSummary, second: ModelSummary | undefined, { onPick, onCompare, onForgetSecond }: OverviewActions): HTMLElement {
  const beside = second
    ? element("p", { class: "beside" }, element("span", {}, "Beside it: ", element("b", {}, second.name)), button("Remove", onForgetSecond, { class: "button small" }))
    : button("Compare with …", onCompare);
  const toList = button("All tensors ↓", () => document.getElementById("sidebar")?.scrollIntoView(), { class: "button to-list" });
  const head = element("header", { class: "stage-head" }, element("h1", { tabIndex: -1 }, first.name), element("div", { class: "buttons" }, beside, toList));
  const cards = [byDtype(first), tied(first, onPick), unreadable(first), metadata(first)].filter((card) => card !== undefined);
  return element("div", { class: "overview" }, head, totals(first), new Treemap(treeOf(first.tensors), onPick).node, element("div", { class: "cards" }, ...cards));
}
