/** A model at a glance. */

import type { TensorInfo } from "zstn";
import type { ByteShares, ModelSummary } from "../engine/protocol.js";
import { button, element } from "../page/element.js";
import { treeOf } from "../tree/node.js";
import { metadata, tied, unreadable } from "./facts.js";
import { sharesCard } from "./shares.js";
import { byDtype, totals } from "./totals.js";
import { Treemap } from "./treemap.js";

export interface OverviewActions {
  onPick: (tensor: TensorInfo) => void;
  onCompare: () => void;
  onForgetSecond: () => void;
  /** Where the bytes of all tensors go. */
  shares: () => Promise<ByteShares>;
}

/** The block tables of a file up to about this length come along with its index, in bytes. */
const TABLES_ALONG_BYTES = 200e6;

export function overview(first: ModelSummary, second: ModelSummary | undefined, { onPick, onCompare, onForgetSecond, shares }: OverviewActions): HTMLElement {
  const beside = second
    ? element("p", { class: "beside" }, element("span", {}, "Beside it: ", element("b", {}, second.name)), button("Remove", onForgetSecond, { class: "button small" }))
    : button("Compare with …", onCompare);
  const toList = button("All tensors ↓", () => document.getElementById("sidebar")?.scrollIntoView(), { class: "button to-list" });
  const head = element("header", { class: "stage-head" }, element("h1", { tabIndex: -1 }, first.name), element("div", { class: "buttons" }, beside, toList));
  const cards = [byDtype(first), first.kind === "zstn" ? sharesCard(shares, first.sizeBytes <= TABLES_ALONG_BYTES) : undefined, tied(first, onPick), unreadable(first), metadata(first)].filter((card) => card !== undefined);
  return element("div", { class: "overview" }, head, totals(first), new Treemap(treeOf(first.tensors), onPick).node, element("div", { class: "cards" }, ...cards));
}
