/** Small multiples: the same tensor in all layers, with a common colour scale, so that an unusual layer is easy to see. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../engine/client.js";
import { colourLimit, exceeds } from "../engine/colour-limit.js";
import { palette } from "../engine/palette.js";
import type { Shading, Thumbnail } from "../engine/protocol.js";
import type { ListedTensor } from "../engine/tensor-table.js";
import { darkScheme, press } from "../page/appearance.js";
import { button, colour, element, select } from "../page/element.js";
import { formatBytes, formatCount, formatValue } from "../page/format.js";
import { announce, showError } from "../page/notice.js";
import { isAbort } from "../page/error-text.js";
import type { OpenedModel } from "../page/opened-model.js";
import type { Activities } from "../network/activity.js";
import type { LayerFamily } from "./layer-family.js";
import { legend } from "./legend.js";

/** The number of bytes that are divided among all pictures. `PICTURE_BYTES` limits the bytes of each picture. */
const TOTAL_BYTES = 32 << 20;
const PICTURE_BYTES = { least: 400 << 10, most: 1 << 20 };
/** The number of tensors that are read concurrently. */
const CONCURRENT = 4;
const SIZE = { width: 168, height: 96 };
/** A layer is marked if its RMS differs from the median by more than this factor. */
const UNUSUAL = 2;

export interface MultiplesOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly info: ListedTensor;
  readonly model: OpenedModel;
  readonly signal: AbortSignal;
  readonly onPick: (info: TensorInfo) => void;
}

/** Returns a node that contains the card of small multiples once it is known that another layer has a tensor of this name. */
export function multiples(options: MultiplesOptions): HTMLElement {
  const { engine, info, model, signal } = options;
  const place = element("div");
  // The card is laid out as if it were in the place of this node.
  place.style.display = "contents";
  const show = (found: readonly LayerFamily<number>[]): void => {
    const families = found.map(({ members, ...family }) => ({ ...family, members: members.map((member) => ({ number: member.number, info: model.tensors.at(member.info) })) }));
    if (families.length > 0) place.replaceChildren(new Multiples(options, families).node);
  };
  engine.call("families", { of: { slot: "first", tensor: info.name, generation: model.generation } }, { signal }).then(show, () => undefined);
  return place;
}

class Multiples {
  readonly node: HTMLElement;
  readonly #options: MultiplesOptions;
  readonly #body = element("div", { class: "multiples-body" });
  #family: LayerFamily;
  #stop: AbortController | undefined;
  /** The pictures, by index of the family member. */
  #found = new Map<number, Thumbnail>();
  #cells: { canvas: HTMLCanvasElement; note: HTMLElement; cell: HTMLElement }[] = [];
  readonly #legend = element("p", { class: "legend" });

  constructor(options: MultiplesOptions, families: readonly LayerFamily[]) {
    this.#options = options;
    this.#family = families[0]!;
    const choice = families.length > 1 && select("Vary", families.map(({ pattern }, i) => [String(i), pattern] as const), "0", (value) => {
      this.#stop?.abort();
      this.#family = families[Number(value)]!;
      this.#offer();
    });
    this.node = element("section", { class: "card wide multiples" }, element("div", { class: "card-head" }, element("h2", {}, "All layers of this tensor"), choice), this.#body);
    darkScheme.addEventListener("change", () => this.#paint(), { signal: options.signal });
    this.#offer();
  }

  get #isVector(): boolean {
    return this.#options.info.shape.filter((size) => size > 1).length <= 1;
  }

  get #bytesEach(): number {
    return Math.max(PICTURE_BYTES.least, Math.min(PICTURE_BYTES.most, Math.floor(TOTAL_BYTES / this.#family.members.length)));
  }

  /** Shows the download size of the pictures before they are fetched. */
  #offer(): void {
    const { members, pattern, more } = this.#family;
    const bytes = members.reduce((sum, { info }) => sum + Math.min(info.storedLength, this.#bytesEach), 0);
    this.#body.replaceChildren(
      element("p", { class: "quiet" }, `${formatCount(members.length)} tensors named `, element("code", {}, pattern), more > 0 && `, ${formatCount(more)} more in the list`, `: a sampled thumbnail of each. Fetches at most ${formatBytes(bytes)}.`),
      button("Show all layers", () => void this.#show(), { class: "button small" }),
    );
  }

  async #show(): Promise<void> {
    const { activities, info, signal, onPick } = this.#options;
    const { members } = this.#family;
    this.#found = new Map();
    this.#cells = members.map(({ number, info: member }) => {
      const canvas = element("canvas", { class: "thumbnail", "aria-hidden": "true" });
      const note = element("span", { class: "thumbnail-note" }, "…");
      const cell = element("button", { type: "button", class: "multiple", onclick: () => onPick(member), title: member.name, "aria-current": member === info ? "true" : undefined }, canvas, element("b", {}, formatCount(number)), note);
      return { canvas, note, cell };
    });
    const parts = this.#isVector ? "Values of a sample from left to right" : "Rows of a sample from top to bottom";
    const words = element("p", { class: "quiet" }, `${parts}, without the gaps between them; one colour scale for all. ${press} to open.`);
    const retry = button("Continue", () => void this.#load(), { class: "button small" });
    retry.hidden = true;
    this.#body.replaceChildren(words, this.#legend, element("ol", { class: "multiple-list" }, ...this.#cells.map(({ cell }) => element("li", {}, cell))), retry);
    this.#load = async () => {
      retry.hidden = true;
      const stop = (this.#stop = new AbortController());
      try {
        await activities.run("All layers", (run) => this.#read(run.signal, run.onStep), AbortSignal.any([stop.signal, signal]));
        announce("All layers have been read.");
      } catch (error) {
        if (signal.aborted || stop.signal.aborted) return;
        retry.hidden = false;
        if (!isAbort(error)) showError(error);
      }
    };
    await this.#load();
  }

  #load: () => Promise<void> = async () => {};

  /** Reads the missing pictures, a few at a time. */
  async #read(signal: AbortSignal, onStep: (step: { loadedBytes: number; totalBytes: number }) => void): Promise<void> {
    const { engine, model } = this.#options;
    const { members } = this.#family;
    const waiting = members.map((_, i) => i).filter((i) => !this.#found.has(i));
    const next = async (): Promise<void> => {
      for (let i = waiting.shift(); i !== undefined; i = waiting.shift()) {
        const found = await engine.call("thumbnail", { of: { slot: "first", tensor: members[i]!.info.name, generation: model.generation }, ...SIZE, maxBytes: this.#bytesEach }, { signal });
        this.#found.set(i, found);
        onStep({ loadedBytes: this.#found.size, totalBytes: members.length });
        this.#paint();
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT }, next));
  }

  /** Draws all available pictures, in their common scale. */
  #paint(): void {
    const all = [...this.#found.values()];
    if (all.length === 0) return;
    const levels = new Float64Array(all.reduce((sum, { levels }) => sum + levels.length, 0));
    let at = 0;
    for (const thumbnail of all) {
      levels.set(thumbnail.levels, at);
      at += thumbnail.levels.length;
    }
    const shading: Shading = this.#isVector ? "mean" : "rms";
    const scale = colourLimit(levels, !this.#isVector);
    const colours = palette(shading, darkScheme.matches);
    const sizes = all.map(({ rms }) => rms).filter(Number.isFinite).sort((a, b) => a - b);
    const median = sizes.length === 0 ? 0 : (sizes[(sizes.length - 1) >> 1]! + sizes[sizes.length >> 1]!) / 2;
    for (const [i, thumbnail] of this.#found) this.#paintOne(this.#cells[i]!, thumbnail, (level) => colours(level / scale.limit), median);
    this.#legend.replaceChildren(...legend({ ...scale, isExceeded: exceeds(scale.max, scale.limit), isComplete: true }, shading));
  }

  #paintOne({ canvas, note, cell }: { canvas: HTMLCanvasElement; note: HTMLElement; cell: HTMLElement }, thumbnail: Thumbnail, colourOf: (level: number) => number, median: number): void {
    const { width, height, levels, rms, nonFinite, rowsRead, rows } = thumbnail;
    if (rowsRead === 0) {
      note.textContent = "can only be loaded whole";
      return;
    }
    canvas.width = width;
    canvas.height = height;
    const image = new ImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    levels.forEach((level, i) => (pixels[i] = colourOf(level)));
    const ctx = canvas.getContext("2d");
    if (ctx) {
      ctx.fillStyle = colour("map-unread");
      ctx.fillRect(0, 0, width, height);
      ctx.putImageData(image, 0, 0);
    }
    const ratio = median > 0 ? rms / median : 1;
    const isUnusual = nonFinite > 0 || ratio > UNUSUAL || ratio < 1 / UNUSUAL;
    const inSample = rowsRead < rows ? " in the sample" : "";
    note.textContent = nonFinite > 0 ? `${formatCount(nonFinite)} NaN or ∞${inSample}` : `RMS ${formatValue(rms, 3)}${inSample}`;
    cell.querySelector(".factor")?.remove();
    if (isUnusual && nonFinite === 0) cell.append(element("span", { class: "factor", title: "RMS relative to the median of all layers" }, `${formatValue(ratio, 2)}×`));
    cell.classList.toggle("unusual", isUnusual);
  }
}
