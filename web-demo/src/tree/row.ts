/** One row of the tree. */

import { element } from "../page/element.js";
import { formatBytes, formatRatio, formatShape, plural } from "../page/format.js";
import { originalBytesOf } from "./node.js";
import { ratioOf } from "./rows.js";
import type { ShownRow } from "./row-list.js";
import { dtypeFamily, typeOf } from "./dtype-family.js";

/** Creates a coloured label for a dtype or another type that `typeOf` returns. */
export function dtypeChip(dtype: string): HTMLElement {
  return element("span", { class: `chip ${dtypeFamily(dtype)}` }, dtype);
}

/** Returns the elements in the row of a module or a tensor: its name, a description, its size and its ratio. */
export function rowContent({ node }: ShownRow): HTMLElement[] {
  if (node.kind === "module") {
    const share = node.originalBytes > 0 ? node.storedBytes / node.originalBytes : 0;
    return [
      element("span", { class: "label", title: node.path.replace(/\.$/, "") }, node.label),
      element("span", { class: "about" }, plural(node.tensors, "tensor")),
      element("span", { class: "bytes" }, formatBytes(node.originalBytes)),
      bar(share),
    ];
  }
  const { tensor } = node;
  const shared = tensor.aliasOf !== undefined;
  const ratio = shared ? "tied" : tensor.base === "copy" ? "same" : formatRatio(ratioOf(tensor));
  return [
    element("span", { class: "label tensor", title: tensor.name }, ...shortened(node.label)),
    element("span", { class: "about" }, formatShape(tensor.shape), " ", dtypeChip(typeOf(tensor))),
    element("span", { class: "bytes" }, formatBytes(originalBytesOf(tensor))),
    bar(shared || tensor.byteLength === 0 ? 0 : tensor.storedLength / originalBytesOf(tensor), ratio),
  ];
}

/** Labels up to this length, in characters, are rarely truncated. */
const SHORT_CHARS = 22;

/** Returns a label in two parts. If space is short, the first part is truncated, because the end is more informative. */
function shortened(label: string): (string | HTMLElement)[] {
  if (label === "") return ["(no name)"];
  if (label.length <= SHORT_CHARS) return [label];
  const parts = label.split(".");
  const tail = parts.splice(-2).join(".");
  const head = parts.length > 0 ? `${parts.join(".")}.` : "";
  return head === "" ? [label] : [element("span", { class: "head" }, head), element("span", { class: "tail" }, tail)];
}

/** Returns a bar for the stored fraction of the original length, with a text: by default the ratio. */
function bar(share: number, text = share > 0 ? formatRatio(1 / share) : "–"): HTMLElement {
  const fill = element("i");
  fill.style.width = `${Math.min(100, share * 100)}%`;
  return element("span", { class: "ratio" }, element("span", { class: "bar", "aria-hidden": "true" }, fill), element("b", {}, text));
}
