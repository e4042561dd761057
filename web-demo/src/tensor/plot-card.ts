/** The card with the picture of a tensor: a heatmap for a matrix or a line for a vector, with its controls. */

import { isTouch } from "../page/appearance.js";
import { button, colour, element, select } from "../page/element.js";
import { formatBytes, formatCount, formatShape } from "../page/format.js";
import { foldOf } from "../engine/shape.js";
import { downloadBlob } from "../page/download.js";
import { readRoute } from "../page/route.js";
import { announce, showError } from "../page/notice.js";
import { Heatmap } from "./heatmap.js";
import type { ShadingChoice } from "./heatmap.js";
import { SHADING_NAMES, scaleEnds } from "./legend.js";
import type { PanelOptions } from "./panel-options.js";
import { plotAddress } from "./plot-address.js";
import { plotImage, pngOf } from "./plot-image.js";
import type { PlotImage } from "./plot-image.js";
import { VectorPlot } from "./vector-plot.js";
import { areaText, parseArea, parsePin } from "./view-state.js";
import type { Viewport } from "./viewport.js";

/** The maximum number of tensor bytes that are fetched for one view. */
const VIEW_BYTES = 16 << 20;
const SHADINGS: readonly (readonly [ShadingChoice, string])[] = [["auto", "Auto"], ["mean", SHADING_NAMES.mean], ["rms", SHADING_NAMES.rms]];

export interface PlotCard {
  readonly node: HTMLElement;
  /** The first cell of the table of values. */
  readonly start: readonly [number, number];
  /** Renders again after more values have been read. */
  refresh(): void;
}

export interface PlotCardOptions extends PanelOptions {
  readonly viewport: Viewport;
  readonly onPick: (row: number, column: number) => void;
}

export function matrixCard(options: PlotCardOptions): PlotCard {
  const { engine, activities, of, minus, info, title, signal, viewport, state, onState, onPick } = options;
  const chosen = SHADINGS.find(([value]) => value === state.shade)?.[0] ?? "auto";
  const pinned = parsePin(state.pin, viewport);
  let isRestoring = true;
  const onPin = (cell: readonly [number, number] | undefined) => {
    if (cell) onPick(...cell);
    if (!isRestoring) onState({ pin: cell && cell.join(",") });
  };
  restore(options);
  const heatmap = new Heatmap({ engine, activities, of, minus, viewport, maxRows: affordable(options, viewport.rows), label: `Heatmap of ${title}`, signal, scale: options.scale, onPin, onSettle: () => onState({ at: areaText(viewport) }) }, chosen);
  const by = select("Shading", SHADINGS, chosen, (value) => {
    heatmap.shading = value as ShadingChoice;
    onState({ shade: value === "auto" ? undefined : value });
  });
  const square = button("Square cells", () => (viewport.isSquare = !viewport.isSquare), { class: "button small", "aria-pressed": String(viewport.isSquare) });
  let wasSquare = viewport.isSquare;
  // Another card may share the viewport and change it.
  viewport.onChange(() => {
    if (viewport.isSquare === wasSquare) return;
    wasSquare = viewport.isSquare;
    square.setAttribute("aria-pressed", String(wasSquare));
    onState({ cells: wasSquare ? "square" : undefined });
  });
  const image = (): PlotImage => {
    const { raster, shading } = heatmap;
    const [low, high] = raster ? scaleEnds(raster, shading) : ["", ""];
    const tones = shading === "mean" ? ["heat-least", "heat-low", "heat-ground", "heat-high", "heat-most"] : ["heat-ground", "heat-half", "heat-high", "heat-most"];
    const notes = [raster && !raster.isComplete && (raster.bandRows === undefined ? "Hatched: not read." : "Hatched: bands of rows, from the file."), raster?.hasNonFinite && "Orange, crossed lines: NaN or ∞.", "Edges: RMS by row and column."].filter((note) => typeof note === "string");
    return { title, facts: [factsOf(options), ...(fold === undefined ? [] : [fold]), withoutAdvice(heatmap.caption)], plot: heatmap.node.querySelector(".plot")!, scale: { name: SHADING_NAMES[shading], low, high, colours: tones.map(colour) }, notes, address: plotAddress(readRoute()) };
  };
  const fold = foldText(options);
  const help = [fold, isTouch ? "Tap to pin values, then drag to pan and pinch to zoom." : "Drag to pan. Click to pin values, then scroll to zoom. Press F to fit."].filter(Boolean).join(" ");
  const refresh = () => {
    heatmap.refresh();
    // The lens depends on the width of the heatmap, which is available once it is on the page.
    if (isRestoring && pinned) heatmap.pin(pinned);
    isRestoring = false;
  };
  const node = card("Heatmap", heatmap.node, [by, square, ...zoomButtons(viewport), saveButton(info.name, image)], help);
  return { node, start: pinned ?? [0, 0], refresh };
}

export function vectorCard(options: PlotCardOptions): PlotCard {
  const { engine, activities, of, minus, info, title, signal, viewport, onState, onPick } = options;
  restore(options);
  const plot = new VectorPlot({ engine, activities, of, minus, viewport, maxValues: affordable(options, viewport.columns), label: `Values of ${title} by index`, signal, onPick: (index) => onPick(index, 0), onSettle: () => onState({ at: areaText(viewport) }) });
  const image = (): PlotImage => ({ title, facts: [factsOf(options), withoutAdvice(plot.caption)], plot: plot.node.querySelector(".plot")!, notes: [], address: plotAddress(readRoute()) });
  const help = isTouch ? "Tap to list values from here, then drag to pan and pinch to zoom." : "Drag to pan. Click to list values from here, then scroll to zoom. Press F to fit.";
  const node = card("Values by index", plot.node, [...zoomButtons(viewport), saveButton(info.name, image)], help);
  return { node, start: [0, 0], refresh: () => plot.refresh() };
}

function restore({ viewport, state }: PlotCardOptions): void {
  if (state.cells === "square") viewport.isSquare = true;
  const area = parseArea(state.at, viewport);
  if (area) viewport.show(area);
}

/** Returns the maximum number of rows that are fetched for one view. */
function affordable({ info: { byteLength } }: PlotCardOptions, rows: number): number {
  return byteLength <= VIEW_BYTES ? rows : Math.max(1, Math.floor((VIEW_BYTES / byteLength) * rows));
}

function card(title: string, figure: HTMLElement, controls: readonly HTMLElement[], help: string): HTMLElement {
  return element("section", { class: "card wide plot-card" }, element("div", { class: "card-head" }, element("h2", {}, title), element("div", { class: "buttons" }, ...controls)), figure, element("p", { class: "plot-help" }, help));
}

function zoomButtons(viewport: Viewport): HTMLElement[] {
  const zoom = (label: string, text: string, act: () => void) => button(text, act, { class: "button small", "aria-label": label });
  return [zoom("Zoom in", "+", () => viewport.zoom(2)), zoom("Zoom out", "−", () => viewport.zoom(0.5)), zoom("Fit", "Fit", () => viewport.fit())];
}

function saveButton(name: string, image: () => PlotImage): HTMLElement {
  const save = async () => {
    try {
      downloadBlob(await pngOf(plotImage(image())), `${name.replace(/[^\w.-]+/g, "_") || "tensor"}.png`);
      announce("The image has been saved.");
    } catch (error) {
      showError(error);
    }
  };
  return button("Save image", () => void save(), { class: "button small" });
}

/** Removes the advice to zoom in, which does not apply to a saved image. */
const withoutAdvice = (caption: string): string => caption.replace(/ – zoom in.*/, "");

function factsOf({ info, model }: PlotCardOptions): string {
  return `${model} · ${formatShape(info.shape)} · ${info.dtype} · ${formatBytes(info.byteLength)}`;
}

/** Returns a sentence that explains how a tensor is shown as a matrix; `undefined` for a real-valued matrix. */
function foldText({ info: { shape, dtype } }: PlotCardOptions): string | undefined {
  if (dtype === "C64") return "Columns alternate real and imaginary parts.";
  const fold = foldOf(shape);
  return fold && `Rows are ${fold.rows.map(formatCount).join(" × ")}, columns ${fold.columns.map(formatCount).join(" × ")}.`;
}
