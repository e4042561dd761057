/** The overview of one model, or of two. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../engine/client.js";
import type { ByteBreakdown } from "../engine/protocol.js";
import type { Activities } from "../network/activity.js";
import { button, element } from "../page/element.js";
import type { OpenedModel } from "../page/opened-model.js";
import type { Picture, Route } from "../page/route.js";
import { byteBreakdownCard } from "./byte-breakdown.js";
import { metadata, tied, unreadable } from "./cards.js";
import { ChangesView } from "./changes/changes-view.js";
import { PictureCard } from "./picture/picture-card.js";
import { byDtype, totals } from "./totals.js";

/** The state of the overview in the URL. */
export type OverviewRoute = Pick<Route, "picture" | "colour" | "area">;

export interface OverviewOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly first: OpenedModel;
  readonly second: OpenedModel | undefined;
  readonly onPick: (tensor: TensorInfo) => void;
  readonly onCompare: () => void;
  readonly onForgetSecond: () => void;
  /** Called with the part of the route that the user has changed. */
  readonly onRoute: (route: OverviewRoute) => void;
  /** Creates the button that copies the link. */
  readonly copyLink: () => HTMLElement;
}

/** The approximate length of the longest file whose block tables are fetched together with its index, in bytes. */
const TABLES_ALONG_BYTES = 200e6;

const PICTURES: Readonly<Record<Picture, string>> = { changes: "What changed", treemap: "Treemap", layers: "Layers" };

export class Overview {
  readonly node = element("div", { class: "overview" });
  readonly #options: OverviewOptions;
  readonly #picture: PictureCard;
  readonly #body = element("div", {});
  readonly #tabs = element("div", { class: "segments", role: "group", "aria-label": "View" });
  readonly #tabButtons: ReadonlyMap<Picture, HTMLElement>;
  #changes: ChangesView | undefined;
  #about: HTMLElement | undefined;
  #route: OverviewRoute = {};

  constructor(options: OverviewOptions) {
    this.#options = options;
    const { engine, first, onPick } = options;
    this.#picture = new PictureCard({ engine, model: first, onPick, onRoute: (change) => this.#go(change) });
    this.#tabButtons = new Map(this.#pictures.map((picture) => [picture, button(PICTURES[picture], () => this.#go({ picture, colour: undefined }), { class: "button small" })]));
    this.#tabs.append(...this.#tabButtons.values());
    this.#tabs.hidden = this.#tabButtons.size < 2;
    this.node.append(this.#head(), this.#tabs, this.#body);
  }

  /** Shows the state that the URL describes. */
  show(route: OverviewRoute): void {
    // The search and the order of the list are left out, because they change independently of this view.
    const { picture: asked, colour, area } = route;
    this.#route = { picture: asked, colour, area };
    const shown = this.#shown;
    for (const [picture, tab] of this.#tabButtons) tab.setAttribute("aria-pressed", String(picture === shown));
    const changes = this.#options.second && this.#changesView(this.#options.second);
    if (changes && shown === "changes") {
      this.#body.replaceChildren(changes.node);
      changes.show(route.colour);
      changes.start();
    } else if (shown !== "changes") {
      this.#body.replaceChildren(this.#modelView());
      this.#picture.show(shown, route);
    }
  }

  /** Stops all reads of the overview. */
  close(): void {
    this.#changes?.close();
    this.#picture.close();
  }

  get #pictures(): Picture[] {
    const own: Picture[] = this.#picture.hasLayers ? ["treemap", "layers"] : ["treemap"];
    return this.#options.second ? ["changes", ...own] : own;
  }

  get #shown(): Picture {
    const { picture } = this.#route;
    return picture !== undefined && this.#pictures.includes(picture) ? picture : this.#pictures[0]!;
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

  #changesView(second: OpenedModel): ChangesView {
    if (this.#changes) return this.#changes;
    const { engine, activities, first, onPick } = this.#options;
    const changes = new ChangesView({
      engine,
      activities,
      first: { ...first, isLocal: "file" in first.source },
      second: { ...second, isLocal: "file" in second.source },
      onColour: (key) => this.#go({ colour: key }),
      onPick,
      onUpdate: () => this.#picture.refresh(),
    });
    this.#picture.addMetrics(changes.metrics, () => changes.start());
    return (this.#changes = changes);
  }

  #modelView(): HTMLElement {
    const { engine, activities, first, onPick } = this.#options;
    const breakdown = (): Promise<ByteBreakdown> => activities.run("Block tables", (options) => engine.call("breakdown", { slot: "first" }, options));
    if (!this.#about) {
      const bytes = first.kind === "zstn" ? byteBreakdownCard(breakdown, first.sizeBytes <= TABLES_ALONG_BYTES) : undefined;
      const cards = [byDtype(first), bytes, tied(first, onPick), unreadable(first), metadata(first)].filter((card) => card !== undefined);
      this.#about = element("div", {}, totals(first), this.#picture.node, element("div", { class: "cards" }, ...cards));
    }
    return this.#about;
  }
}
