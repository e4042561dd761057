/** The picture of a model: its treemap, or its layer matrix. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../../engine/client.js";
import type { StatisticsTable } from "../../engine/statistics-table.js";
import { element, select } from "../../page/element.js";
import type { OpenedModel } from "../../page/opened-model.js";
import type { Route } from "../../page/route.js";
import { decodeStacks } from "../layers/encoded-stacks.js";
import type { EncodedStacks } from "../layers/encoded-stacks.js";
import { LayerMatrix } from "../layers/matrix.js";
import { metricsOf } from "./metric.js";
import type { Metric } from "./metric.js";
import { Treemap } from "./treemap.js";

export interface PictureCardOptions {
  readonly engine: Engine;
  readonly model: OpenedModel;
  readonly onPick: (tensor: TensorInfo) => void;
  readonly onRoute: (change: Pick<Route, "colour" | "area">) => void;
}

const BY_DTYPE = "dtype";

export class PictureCard {
  readonly node = element("section", { class: "card wide" });
  readonly #options: PictureCardOptions;
  readonly #treemap: Treemap;
  #layers: LayerMatrix | undefined;
  readonly #closing = new AbortController();
  #metrics: readonly Metric[] = metricsOf(undefined);
  /** Metrics of another view. `#onAdded` makes that view compute them. */
  #added: readonly Metric[] = [];
  #onAdded: () => void = () => {};
  #metric: Metric | undefined;
  #shown: { kind: "treemap" | "layers"; route: Pick<Route, "colour" | "area"> } | undefined;

  constructor(options: PictureCardOptions) {
    this.#options = options;
    const { engine, model, onPick } = options;
    this.#treemap = new Treemap({ engine, model, onPick, signal: this.#closing.signal });
  }

  /** True once the layers are known. */
  get isReady(): boolean {
    return this.#layers !== undefined;
  }

  get hasLayers(): boolean {
    return this.#layers?.hasLayers ?? false;
  }

  useLayers(layers: EncodedStacks): void {
    const { model, onPick } = this.#options;
    this.#layers = new LayerMatrix({ stacks: decodeStacks(layers, model.tensors), onPick, unknown: "not known" });
  }

  /** Adds metrics that another view computes. `onShown` is called when one of them is shown. */
  addMetrics(metrics: readonly Metric[], onShown: () => void): void {
    this.#added = metrics;
    this.#onAdded = onShown;
  }

  /** Recolours the picture after the values of added metrics have changed. */
  refresh(): void {
    if (this.#shown && this.#metric && this.#added.includes(this.#metric)) this.#paint(this.#shown.kind, this.#metric);
  }

  show(kind: "treemap" | "layers", route: Pick<Route, "colour" | "area">): void {
    this.#shown = { kind, route };
    const { onRoute, model } = this.#options;
    const metrics = [...this.#metrics, ...this.#added];
    // The default metric: in a packed or quantised model the bits per weight differ between tensors, in a plain one only the sizes do.
    const usual = kind === "treemap" ? BY_DTYPE : (metrics.find(({ key }) => key === "rms")?.key ?? (["zstn", "gguf"].includes(model.kind) ? "bits" : "size"));
    const metric = metrics.find(({ key }) => key === route.colour) ?? metrics.find(({ key }) => key === usual);
    const choices = [...(kind === "treemap" ? [[BY_DTYPE, "dtype"] as const] : []), ...metrics.map(({ key, label }) => [key, label] as const)];
    const by = select("Colour by", choices, metric?.key ?? BY_DTYPE, (colour) => onRoute({ colour }));
    const measure = route.area === "original" ? "original" : "stored";
    const area = select("Size", [["stored", "stored"], ["original", "original"]], measure, (value) => onRoute({ area: value === "original" ? "original" : undefined }));
    const title = kind === "treemap" ? "Size by tensor" : "Layers by module";
    const controls = element("div", { class: "buttons" }, by, kind === "treemap" && area);
    const focused = this.node.contains(document.activeElement) ? document.activeElement?.getAttribute("aria-label") : undefined;
    this.node.replaceChildren(element("div", { class: "card-head" }, element("h2", {}, title), controls), kind === "treemap" ? this.#treemap.node : this.#layers!.node);
    if (focused) this.node.querySelector<HTMLElement>(`select[aria-label="${focused}"]`)?.focus();
    this.#metric = metric;
    this.#paint(kind, metric);
    if (metric && this.#added.includes(metric)) this.#onAdded();
  }

  #paint(kind: "treemap" | "layers", metric: Metric | undefined): void {
    if (kind === "treemap") this.#treemap.show(this.#shown?.route.area === "original" ? "original" : "stored", metric);
    else if (metric) void this.#layers?.colour(metric);
  }

  close(): void {
    this.#closing.abort();
  }

  /** Adds the metrics of statistics, which were stored by the packer or measured. */
  useStatistics(statistics: StatisticsTable): void {
    this.#metrics = metricsOf(statistics);
    if (this.#shown) this.show(this.#shown.kind, this.#shown.route);
  }
}
