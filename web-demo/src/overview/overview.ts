/** The overview of a model. */

import type { TensorInfo } from "zstn";
import type { ByteBreakdown, ModelSummary } from "../engine/protocol.js";
import { button, element } from "../page/element.js";
import { treeOf } from "../tree/node.js";
import { metadata, tied, unreadable } from "./cards.js";
import { byteBreakdownCard } from "./byte-breakdown.js";
import { byDtype, totals } from "./totals.js";
import { Treemap } from "./treemap.js";

export interface OverviewActions {
  onPick: (tensor: TensorInfo) => void;
  onCompare: () => void;
  onForgetSecond: () => void;
  /** Loads the byte breakdown of all tensors. */
  breakdown: () => Promise<ByteBreakdown>;
}

/** The longest file whose block tables are fetched together with its index, in bytes, approximately. */
const TABLES_ALONG_BYTES = 200e6;

export function overview(first: ModelSummary, second: ModelSummary | undefined, { onPick, onCompare, onForgetSecond, breakdown }: OverviewActions): HTMLElement {
  const comparison = second
    ? element("p", { class: "beside" }, element("span", {}, "Comparing with ", element("b", {}, second.name)), button("Remove", onForgetSecond, { class: "button small" }))
    : button("Compare with…", onCompare);
  const toList = button("All tensors ↓", () => document.getElementById("sidebar")?.scrollIntoView(), { class: "button to-list" });
  const head = element("header", { class: "stage-head" }, element("h1", { tabIndex: -1 }, first.name), element("div", { class: "buttons" }, comparison, toList));
  const cards = [byDtype(first), first.kind === "zstn" ? byteBreakdownCard(breakdown, first.sizeBytes <= TABLES_ALONG_BYTES) : undefined, tied(first, onPick), unreadable(first), metadata(first)].filter((card) => card !== undefined);
  return element("div", { class: "overview" }, head, totals(first), new Treemap(treeOf(first.tensors), onPick).node, element("div", { class: "cards" }, ...cards));
}
