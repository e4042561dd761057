/** The bytes of a model by bit plane and encoding. */

import type { ByteBreakdown } from "../engine/protocol.js";
import { button, element, dataValue } from "../page/element.js";
import { formatBytes, formatShare, plural } from "../page/format.js";

/** Returns a table with a bar for every plane. The pale bar is the decoded length, the full one the stored length. */
export function byteBreakdownTable({ planes, otherBytes, tensors }: ByteBreakdown, restWords: string): HTMLElement {
  const most = Math.max(1, otherBytes, ...planes.map(({ byteLength }) => byteLength));
  const all = otherBytes + planes.reduce((sum, { storedLength }) => sum + storedLength, 0);
  const line = (name: string, method: string, byteLength: number, storedLength: number) => {
    const fill = element("i");
    fill.style.width = `${(100 * storedLength) / Math.max(1, byteLength)}%`;
    const bar = element("span", { class: `bar ${storedLength < 0.98 * byteLength ? "half" : "other"}`, "aria-hidden": "true" }, fill);
    bar.style.width = `${Math.max(2, (64 * byteLength) / most)}px`;
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      element("td", {}, method),
      element("td", {}, bar, dataValue(storedLength, formatBytes(storedLength))),
      element("td", {}, formatShare(storedLength / Math.max(1, all))),
    );
  };
  const rows = planes.map(({ name, method, byteLength, storedLength }) => line(name, METHODS[method] ?? method, byteLength, storedLength));
  if (otherBytes > 0 && tensors > 0) rows.push(line(restWords, "–", otherBytes, otherBytes));
  const head = element("tr", {}, ...["Plane", "Encoding", "Stored", "Share"].map((label) => element("th", { scope: "col" }, label)));
  return element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Bytes by plane" }, element("table", { class: "table" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

const METHODS: Readonly<Record<string, string>> = { store: "raw", "zstd blocks": "zstd, in blocks" };

/**
 * Returns the card for the overview. It loads its data immediately if the block tables were fetched with the index,
 * otherwise on request. It removes itself if the model has no block tables.
 */
export function byteBreakdownCard(load: () => Promise<ByteBreakdown>, atOnce: boolean): HTMLElement {
  const body = element("div", {});
  const card = element("section", { class: "card" }, element("h2", {}, "Bytes by bit plane"), body);
  const ask = () => body.replaceChildren(element("p", { class: "quiet" }, "Needs a small extra download."), button("Load block tables", show));
  const show = () => {
    body.replaceChildren(element("p", { class: "quiet" }, "Loading…"));
    load().then((breakdown) => (breakdown.planes.length > 0 ? body.replaceChildren(...content(breakdown)) : card.remove()), ask);
  };
  if (atOnce) show();
  else ask();
  return card;
}

function content(breakdown: ByteBreakdown): HTMLElement[] {
  return [element("p", { class: "quiet" }, `${plural(breakdown.tensors, "large tensor")}; the rest are listed as small.`), byteBreakdownTable(breakdown, "small tensors")];
}
