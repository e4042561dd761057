/** The overview of one model, or of two. */

import type { Engine } from "../engine/client.js";
import { StatisticsTable } from "../engine/statistics-table.js";
import type { ByteBreakdown } from "../engine/protocol.js";
import type { Activities } from "../network/activity.js";
import { button, element } from "../page/element.js";
import type { OpenedModel } from "../page/opened-model.js";
import type { Picture, Route } from "../page/route.js";
import { ModelLine } from "./about/model-line.js";
import { byteBreakdownCard } from "./byte-breakdown.js";
import { metadata, tied, unreadable } from "./cards.js";
import { ChangesView } from "./changes/changes-view.js";
import type { PickPlace } from "./health/finding-place.js";
import { HealthCard } from "./health/health-card.js";
import { PictureCard } from "./picture/picture-card.js";
import { byDtype, totals } from "./totals.js";

/** The state of the overview in the URL. */
export type OverviewRoute = Pick<Route, "picture" | "colour" | "area">;

export interface OverviewOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly first: OpenedModel;
  readonly second: OpenedModel | undefined;
  readonly onPick: PickPlace;
  readonly onCompare: () => void;
  readonly onForgetSecond: () => void;
  /** Called with the part of the route that the user has changed. */
  readonly onRoute: (route: OverviewRoute) => void;
  /** Creates the button that copies the link. */
  readonly copyLink: () => HTMLElement;
}

/** The approximate length of the longest file whose block tables are fetched together with its index, in bytes. */
const TABLES_ALONG_BYTES = 200e6;

const PICTURES: Readonly<Record<Picture, string>> = { changes: "What changed", layers: "Layers", treemap: "Treemap" };

export class Overview {
  readonly node = element("div", { class: "overview" });
  readonly #options: OverviewOptions;
  readonly #picture: PictureCard;
  readonly #line: ModelLine;
  readonly #health: HealthCard;
  readonly #body = element("div", {});
  readonly #tabs = element("div", { class: "segments", role: "group", "aria-label": "View" });
  /** The buttons of the pictures; empty until it is known whether the model has layers. */
  #tabButtons: ReadonlyMap<Picture, HTMLElement> = new Map();
  #changes: ChangesView | undefined;
  #isPairing = false;
  #about: HTMLElement | undefined;
  #route: OverviewRoute = {};
  /** True if the file has statistics; `undefined` while they are being loaded. */
  #hasStatistics: boolean | undefined;
  readonly #closing = new AbortController();

  constructor(options: OverviewOptions) {
    this.#options = options;
    const { engine, activities, first, onPick } = options;
    // Only packed files contain statistics.
    this.#hasStatistics = first.kind === "zstn" ? undefined : false;
    const statistics = this.#loadStatistics();
    this.#health = new HealthCard({ engine, activities, model: first, statistics, onPick, onReveal: () => this.#go({ picture: this.#picture.hasLayers ? "layers" : "treemap", colour: undefined }), onMeasured: (measured) => this.#picture.useStatistics(measured) });
    this.#line = new ModelLine(first, engine, [this.#health.summary]);
    this.#picture = new PictureCard({ engine, model: first, onPick, onRoute: (change) => this.#go(change) });
    this.#tabs.hidden = true;
    this.node.append(this.#head(), this.#line.node, this.#tabs, this.#body);
    void this.#loadLayers();
  }

  /** Shows the state that the URL describes. */
  show(route: OverviewRoute): void {
    // The search and the order of the list are left out, because they change independently of this view.
    const { picture: asked, colour, area } = route;
    this.#route = { picture: asked, colour, area };
    const shown = this.#shown;
    // The first picture depends on the layers and the statistics, which need no download.
    if (shown === undefined) return;
    for (const [picture, tab] of this.#tabButtons) tab.setAttribute("aria-pressed", String(picture === shown));
    const { second } = this.#options;
    // The colours of all pictures depend on the comparison.
    if (second && !this.#changes) return void this.#compare(second);
    const changes = this.#changes;
    if (changes && shown === "changes") {
      this.#body.replaceChildren(changes.node);
      changes.show(route.colour);
      changes.start();
    } else if (shown !== "changes") {
      const view = this.#modelView();
      // A view that is inserted again would lose its focus.
      if (view.parentElement !== this.#body) this.#body.replaceChildren(view);
      this.#picture.show(shown, route);
    }
  }

  /** Stops all reads of the overview. */
  close(): void {
    this.#closing.abort();
    this.#line.close();
    this.#health.close();
    this.#changes?.close();
    this.#picture.close();
  }

  get #pictures(): Picture[] {
    const own: Picture[] = this.#picture.hasLayers ? ["layers", "treemap"] : ["treemap"];
    return this.#options.second ? ["changes", ...own] : own;
  }

  /** The picture to show: the one in the URL, or the most informative one; `undefined` until that is known. */
  get #shown(): Picture | undefined {
    const { picture } = this.#route;
    if (!this.#picture.isReady) return undefined;
    if (picture !== undefined && this.#pictures.includes(picture)) return picture;
    if (this.#options.second) return "changes";
    if (!this.#picture.hasLayers) return "treemap";
    // Without statistics, layers of equal sizes have equal colours.
    return this.#hasStatistics === undefined ? undefined : this.#hasStatistics ? "layers" : "treemap";
  }

  /** Loads the statistics that the packer stored; `undefined` if there are none. If they are damaged, reading a tensor reports the error. */
  async #loadStatistics(): Promise<StatisticsTable | undefined> {
    const { engine, first } = this.#options;
    if (first.kind !== "zstn") return undefined;
    const found = await engine.call("statistics", { slot: "first" }, { signal: this.#closing.signal }).catch(() => undefined);
    if (this.#closing.signal.aborted) return undefined;
    this.#hasStatistics = found !== undefined;
    const statistics = found && new StatisticsTable(found);
    if (statistics) this.#picture.useStatistics(statistics);
    if (this.#body.childElementCount === 0) this.show(this.#route);
    return statistics;
  }

  /** Loads the layers of the model, which determine the pictures to choose from. */
  async #loadLayers(): Promise<void> {
    const { engine, first } = this.#options;
    const layers = await engine.call("layers", { slot: "first", generation: first.generation }, { signal: this.#closing.signal }).catch(() => undefined);
    if (!layers || this.#closing.signal.aborted) return;
    this.#picture.useLayers(layers);
    this.#tabButtons = new Map(this.#pictures.map((picture) => [picture, button(PICTURES[picture], () => this.#go({ picture, colour: undefined }), { class: "button small" })]));
    this.#tabs.replaceChildren(...this.#tabButtons.values());
    this.#tabs.hidden = this.#tabButtons.size < 2;
    this.show(this.#route);
  }

  #go(change: OverviewRoute): void {
    this.#options.onRoute({ ...this.#route, ...change });
  }

  #head(): HTMLElement {
    const { first, second, onCompare, onForgetSecond, copyLink } = this.#options;
    const comparison = second
      ? element("p", { class: "beside" }, element("span", {}, "Comparing with ", element("b", {}, second.name)), button("✕", onForgetSecond, { class: "button small", "aria-label": "Remove the second model" }))
      : button("Compare with…", onCompare, { class: "button small" });
    return element("header", { class: "stage-head" }, element("h1", { tabIndex: -1 }, first.name), element("div", { class: "buttons" }, comparison, copyLink()));
  }

  /** Prepares the comparison, and then shows the current route. */
  async #compare(second: OpenedModel): Promise<void> {
    if (this.#isPairing) return;
    this.#isPairing = true;
    const { engine, activities, first, onPick } = this.#options;
    const { signal } = this.#closing;
    const options = { engine, activities, first, second, onColour: (key: string) => this.#go({ colour: key }), onPick, onUpdate: () => this.#picture.refresh() };
    const changes = await ChangesView.of(options, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
    if (!changes || signal.aborted) return;
    this.#changes = changes;
    this.#picture.addMetrics(changes.metrics, () => changes.start());
    this.show(this.#route);
  }

  #modelView(): HTMLElement {
    const { engine, activities, first, onPick } = this.#options;
    const breakdown = (): Promise<ByteBreakdown> => activities.run("Block tables", (options) => engine.call("breakdown", { slot: "first" }, options));
    if (!this.#about) {
      const bytes = first.kind === "zstn" ? byteBreakdownCard(breakdown, first.sizeBytes <= TABLES_ALONG_BYTES) : undefined;
      const cards = [byDtype(first), bytes, tied(first, onPick), unreadable(first), metadata(first)].filter((card) => card !== undefined);
      const picture = first.tensors.size > 0 && this.#picture.node;
      this.#about = element("div", { class: "model-view" }, totals(first), picture, first.figures.floats.tensors > 0 && this.#health.node, element("div", { class: "cards" }, ...cards));
    }
    return this.#about;
  }
}
