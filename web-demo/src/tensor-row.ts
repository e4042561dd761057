/** One row of the list. */

import type { TensorInfo } from "zstn";
import { dtypeFamily } from "./dtype-color.js";
import { element } from "./element.js";
import { formatBytes, formatRatio, formatShape } from "./format.js";
import { ratioOf } from "./order.js";

/** A coloured label for a dtype. */
export function dtypeChip(dtype: string): HTMLElement {
  return element("span", { class: `chip ${dtypeFamily(dtype)}` }, dtype);
}

/** The cells of a row, in the order of the columns. */
export function rowCells(tensor: TensorInfo): HTMLElement[] {
  const shared = tensor.sharedWith !== undefined;
  return [
    cell("name", nameParts(tensor.name), tensor.name),
    cell("dtype", dtypeChip(tensor.dtype)),
    cell("shape", formatShape(tensor.shape)),
    cell("bytes", formatBytes(tensor.byteLength)),
    cell("bytes stored", shared ? "shared" : formatBytes(tensor.storedLength), shared ? `Same bytes as ${tensor.sharedWith}` : undefined),
    cell("ratio", ratioBar(tensor)),
  ];
}

function cell(kind: string, content: Node | string, title?: string): HTMLElement {
  return element("span", { class: `cell ${kind}`, role: "gridcell", title }, content);
}

/** The path of a name stays quiet; what tells tensors apart stands out. */
function nameParts(name: string): Node {
  const parts = document.createDocumentFragment();
  const lead = /^(.*\.)?([^.]+\.[^.]+)$/s.exec(name);
  if (lead?.[1]) parts.append(element("span", { class: "lead" }, lead[1]), lead[2]!);
  else parts.append(name === "" ? element("em", {}, "(no name)") : name);
  return parts;
}

function ratioBar(tensor: TensorInfo): Node {
  const fill = element("i");
  const share = tensor.sharedWith === undefined && tensor.byteLength > 0 ? tensor.storedLength / tensor.byteLength : 0;
  fill.style.width = `${Math.min(100, share * 100)}%`;
  const text = tensor.sharedWith === undefined ? formatRatio(ratioOf(tensor)) : "–";
  return element("span", { class: "ratio-inner" }, element("span", { class: "bar", "aria-hidden": "true" }, fill), element("b", {}, text));
}
