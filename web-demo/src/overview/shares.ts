/** Where the bytes go: planes and how they are coded. */

import type { ByteShares } from "../engine/protocol.js";
import { button, element, figure } from "../page/element.js";
import { formatBytes, formatShare, plural } from "../page/format.js";

/** A table with a bar for every plane: the decoded length pale, what is stored of it full. */
export function sharesTable({ planes, otherBytes, tensors }: ByteShares, restWords: string): HTMLElement {
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
      element("td", {}, bar, figure(storedLength, formatBytes(storedLength))),
      element("td", {}, formatShare(storedLength / Math.max(1, all))),
    );
  };
  const rows = planes.map(({ name, method, byteLength, storedLength }) => line(name, METHODS[method] ?? method, byteLength, storedLength));
  if (otherBytes > 0 && tensors > 0) rows.push(line(restWords, "–", otherBytes, otherBytes));
  const head = element("tr", {}, ...["Plane", "Coded as", "Stored", "of all"].map((label) => element("th", { scope: "col" }, label)));
  return element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Bytes by plane" }, element("table", { class: "table" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

const METHODS: Readonly<Record<string, string>> = { store: "as it is", "zstd blocks": "zstd, in blocks" };

/** The card of the overview. What came along with the index is shown at once, else when someone asks; it goes where there is nothing to tell. */
export function sharesCard(load: () => Promise<ByteShares>, atOnce: boolean): HTMLElement {
  const body = element("div", {});
  const card = element("section", { class: "card" }, element("h2", {}, "Where the bytes go"), body);
  const ask = () => body.replaceChildren(element("p", { class: "quiet" }, "The block tables say it; they have not been fetched yet."), button("Look into them", show));
  const show = () => {
    body.replaceChildren(element("p", { class: "quiet" }, "Looking …"));
    load().then((shares) => (shares.planes.length > 0 ? body.replaceChildren(...told(shares)) : card.remove()), ask);
  };
  if (atOnce) show();
  else ask();
  return card;
}

function told(shares: ByteShares): HTMLElement[] {
  return [element("p", { class: "quiet" }, `Planes of ${plural(shares.tensors, "tensor")}, from their block tables.`), sharesTable(shares, "short tensors")];
}
