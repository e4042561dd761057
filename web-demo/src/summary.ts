/** The head of the page once a file is open: what it is, and what looking at it has cost. */

import { element } from "./element.js";
import { FileMap } from "./file-map.js";
import { formatBytes, formatCount, formatRatio, formatShare, plural } from "./format.js";
import type { Opened } from "./opened.js";
import type { TensorInfo } from "zstn";

export class Summary {
  readonly map: FileMap;
  readonly #opened: Opened;
  readonly #fetched = element("dd");
  readonly #fetchedNote = element("dd", { class: "note" });

  constructor(host: HTMLElement, opened: Opened, onPick: (tensor: TensorInfo) => void) {
    this.#opened = opened;
    this.map = new FileMap(opened, onPick);
    const { model, name } = opened;
    const title = element("h1", {}, name, " ", element("span", { class: "kind" }, model.kind));
    host.replaceChildren(title, this.#figures(), this.map.node, ...metadata(model.metadata));
    host.hidden = false;
    this.update();
  }

  /** Shows the counters as they are now. */
  update(): void {
    const { stats, size } = this.#opened.model;
    this.#fetched.textContent = formatBytes(stats.bytesFetched);
    const share = size > 0 ? `${formatShare(stats.bytesFetched / size)} of the file, ` : "";
    this.#fetchedNote.textContent = `${share}${plural(stats.requests, "request")}`;
    this.map.draw();
  }

  #figures(): HTMLElement {
    const { model } = this.#opened;
    const tensors = [...model.tensors.values()];
    const parameters = tensors.reduce((sum, tensor) => sum + tensor.shape.reduce((product, size) => product * size, 1), 0);
    const packed = model.kind === "zstn" && model.size > 0;
    return element(
      "dl",
      { class: "figures" },
      figure("File", formatBytes(model.size), packed ? "packed" : "as it is"),
      figure("Original", formatBytes(model.originalSize), `${formatCount(parameters)} values`),
      figure("Ratio", packed ? formatRatio(model.originalSize / model.size) : "1×", packed ? saving(model.originalSize, model.size) : "not packed"),
      figure("Tensors", formatCount(tensors.length), dtypes(tensors)),
      element("div", { class: "figure lit" }, element("dt", {}, "Fetched so far"), this.#fetched, this.#fetchedNote),
    );
  }
}

function figure(label: string, value: string, note: string): HTMLElement {
  return element("div", { class: "figure" }, element("dt", {}, label), element("dd", {}, value), element("dd", { class: "note" }, note));
}

function saving(originalBytes: number, sizeBytes: number): string {
  if (sizeBytes >= originalBytes) return "no smaller";
  return `${formatShare(1 - sizeBytes / originalBytes)} saved`;
}

function dtypes(tensors: TensorInfo[]): string {
  const bytes = new Map<string, number>();
  for (const { dtype, byteLength } of tensors) bytes.set(dtype, (bytes.get(dtype) ?? 0) + byteLength);
  const names = [...bytes].sort((a, b) => b[1] - a[1]).map(([dtype]) => dtype);
  if (names.length === 0) return "none";
  return names.length > 3 ? `${names.slice(0, 2).join(", ")} and ${names.length - 2} more types` : names.join(", ");
}

function metadata(entries: Readonly<Record<string, string>>): HTMLElement[] {
  const names = Object.keys(entries);
  if (names.length === 0) return [];
  const rows = names.map((name) => element("div", {}, element("dt", {}, name), element("dd", {}, entries[name])));
  return [element("details", { class: "metadata" }, element("summary", {}, `Metadata (${names.length})`), element("dl", {}, ...rows))];
}
