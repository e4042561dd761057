/** Packs a local file in the page, by itself or as a delta from a base. */

import type { PackReport, PackedTensor } from "zstn";
import { Engine } from "../engine/client.js";
import { button, select, element, dataValue } from "../page/element.js";
import { formatBytes, formatDuration, formatRatio, formatShare, plural } from "../page/format.js";
import { announce, errorBox } from "../page/notice.js";
import { downloadBlob } from "../page/download.js";
import { isAbort } from "../page/error-text.js";
import type { Activities } from "../network/activity.js";
import { BasePicker } from "./base-picker.js";

/** The number of rows that are shown at first. A button shows the rest. */
const FIRST_ROWS = 200;

type Effort = "fast" | "balanced" | "max";

export class PackPanel {
  readonly node: HTMLElement;
  readonly #activities: Activities;
  readonly #onOpen: (file: File, base: File | undefined) => void;
  readonly #base = new BasePicker();
  readonly #result = element("div", { class: "pack-result" });
  #effort: Effort = "balanced";
  #extended = false;
  #packing: AbortController | undefined;

  constructor(activities: Activities, onOpen: (file: File, base: File | undefined) => void) {
    this.#activities = activities;
    this.#onOpen = onOpen;
    const input = element("input", { type: "file", id: "pack-file", class: "unseen" });
    input.addEventListener("change", () => {
      const file = input.files?.[0];
      input.value = "";
      if (file) void this.pack(file);
    });
    const effort = select("Effort", [["fast", "fast"], ["balanced", "balanced"], ["max", "smallest"]], this.#effort, (value) => (this.#effort = value as Effort));
    const readers = select("Readable by", [["all", "zstn and z4ai"], ["extended", "zstn only (smaller)"]], "all", (value) => (this.#extended = value === "extended"));
    this.node = element(
      "div",
      { class: "pack" },
      element("header", { class: "stage-head" }, element("h1", { tabIndex: -1 }, "Compress a model")),
      element("p", { class: "lead" }, "A model becomes a .zstn file: smaller, lossless, and readable tensor by tensor. With a base model (.safetensors), only the changes are stored. Nothing leaves your machine."),
      element("div", { class: "pack-tools" }, input, element("label", { class: "drop", htmlFor: "pack-file" }, element("strong", {}, "Drop or choose a model file"), element("span", {}, "runs locally in your browser")), element("div", { class: "pack-options" }, effort, readers, this.#base.node)),
      this.#result,
    );
  }

  async pack(file: File): Promise<void> {
    this.#packing?.abort();
    const packing = new AbortController();
    this.#packing = packing;
    const base = this.#base.file;
    const what = base ? `${file.name} against ${base.name}` : file.name;
    const bar = element("progress", { max: 1, value: 0, "aria-label": `Packing ${file.name}` });
    const note = element("p", { class: "reading", role: "status" }, `Packing ${what} (${formatBytes(file.size)}) …`);
    this.#result.replaceChildren(element("div", { class: "notice packing" }, note, bar, button("Cancel", () => packing.abort(), { "aria-label": "Cancel packing" })));
    // Packing has a separate worker, so that viewing a model does not have to wait.
    const engine = new Engine();
    const start = performance.now();
    try {
      const report = await this.#activities.run(
        `Packing ${file.name}`,
        ({ signal, onStep }) =>
          engine.call("pack", { file, base, effort: this.#effort, extended: this.#extended }, {
            signal,
            onStep: (step) => {
              bar.value = step.loadedBytes / Math.max(1, step.totalBytes);
              onStep(step);
            },
          }),
        packing.signal,
      );
      this.#show(file, base, report, performance.now() - start);
    } catch (error) {
      if (this.#packing !== packing) return;
      const stopped = isAbort(error) ? new Error("Cancelled.") : error;
      this.#result.replaceChildren(errorBox(stopped, [{ label: "Retry", act: () => void this.pack(file) }]));
    } finally {
      engine.stop();
    }
  }

  #show(file: File, base: File | undefined, { blob, originalSize, size, tensors, indexed, original }: PackReport & { blob: Blob }, tookMs: number): void {
    const name = `${file.name.replace(/\.safetensors$/i, "")}.${base ? "z4dm" : "zstn"}`;
    const copies = tensors.filter((tensor) => tensor.base === "copy").length;
    announce(`${file.name} has been packed: ${formatRatio(originalSize / size)}.`);
    const howStored = indexed ? "lossless" : original ? "lossless, stored as bytes" : "stored as one blob (not valid safetensors)";
    const entry = (label: string, value: HTMLElement, note: string) => element("div", { class: "figure" }, element("dt", {}, label), element("dd", {}, value), element("dd", { class: "note" }, note));
    const list = element(
      "dl",
      { class: "figures" },
      entry("Original", dataValue(originalSize, formatBytes(originalSize)), base ? `${plural(tensors.length, "tensor")}, ${copies} as in the base` : (original?.kind ?? plural(tensors.length, "tensor"))),
      entry("Packed", dataValue(size, formatBytes(size), { "data-packed": "size" }), size < originalSize ? `${formatShare(1 - size / originalSize)} saved` : "no savings"),
      entry("Ratio", dataValue(originalSize / size, formatRatio(originalSize / size)), base ? `lossless, with ${base.name}` : howStored),
      entry("Time", dataValue(tookMs, formatDuration(tookMs)), `${formatBytes((originalSize / Math.max(1, tookMs)) * 1000)}/s`),
    );
    const buttons = element(
      "div",
      { class: "buttons" },
      button(`Save ${name}`, () => downloadBlob(blob, name), { class: "button primary" }),
      button("Look inside", () => this.#onOpen(new File([blob], name), base)),
    );
    this.#result.replaceChildren(list, buttons, ratios(tensors));
  }
}

/** Returns a table with the original length, the packed length and the ratio of each tensor. */
function ratios(tensors: readonly PackedTensor[]): HTMLElement {
  const body = element("tbody", {}, ...tensors.slice(0, FIRST_ROWS).map(ratioRow));
  const head = element("tr", {}, ...["Tensor", "Original", "Packed", "Ratio"].map((label) => element("th", { scope: "col" }, label)));
  const table = element("table", { class: "table" }, element("thead", {}, head), body);
  const rest = tensors.length - FIRST_ROWS;
  const more = button(`Show ${plural(rest, "more tensor")}`, () => {
    body.append(...tensors.slice(FIRST_ROWS).map(ratioRow));
    more.remove();
  });
  return element("section", { class: "card wide" }, element("h2", {}, "Tensor by tensor"), element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Ratio of every tensor" }, table), rest > 0 && more);
}

function ratioRow({ name, byteLength, storedLength, aliasOf, base }: PackedTensor): HTMLElement {
  const elsewhere = aliasOf !== undefined ? `tied to ${aliasOf}` : base === "copy" ? "as in the base" : undefined;
  const fill = element("i");
  fill.style.width = `${elsewhere === undefined ? Math.min(100, (100 * storedLength) / Math.max(1, byteLength)) : 0}%`;
  const bar = elsewhere === undefined && element("span", { class: "bar", "aria-hidden": "true" }, fill);
  const ratio = elsewhere ?? formatRatio(byteLength / Math.max(1, storedLength));
  return element("tr", {}, element("th", { scope: "row", class: "mono" }, name), element("td", {}, formatBytes(byteLength)), element("td", {}, elsewhere === undefined ? formatBytes(storedLength) : "–"), element("td", { class: "ratio-cell" }, bar, ratio));
}
