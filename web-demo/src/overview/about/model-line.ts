/** The line at the top of the overview: what the model is. */

import type { Engine } from "../../engine/client.js";
import { button, element } from "../../page/element.js";
import type { OpenedModel } from "../../page/opened-model.js";
import { dtypeChip } from "../../tree/row.js";
import { parseConfig } from "./config.js";
import type { ModelConfig } from "./config.js";
import type { Fact, Facts } from "./facts.js";

/** The maximum number of types that are listed. */
const MAX_TYPES = 5;

export class ModelLine {
  readonly node = element("section", { class: "model-line", "aria-label": "About this model" });
  readonly #model: OpenedModel;
  readonly #engine: Engine;
  /** Elements of other views that follow the facts. */
  readonly #more: readonly HTMLElement[];
  readonly #closing = new AbortController();
  #config: ModelConfig | undefined;
  #isSearched = false;

  constructor(model: OpenedModel, engine: Engine, more: readonly HTMLElement[]) {
    this.#model = model;
    this.#engine = engine;
    this.#more = more;
    void this.#load();
  }

  close(): void {
    this.#closing.abort();
  }

  /** Shows the facts, and reads a configuration that could add some. */
  async #load(): Promise<void> {
    const { name, generation } = this.#model;
    const { signal } = this.#closing;
    const facts = await this.#engine.call("facts", { slot: "first", generation, name, config: this.#config }, { signal }).catch(() => undefined);
    if (!facts || signal.aborted) return;
    this.#show(facts);
    // At other addresses the file is seldom there, and the server's owner would see a failed request.
    if (facts.needsConfig && !this.#isSearched && hasListedNeighbours(this.#model)) void this.#readConfig();
  }

  #show({ facts, types, notes, needsConfig }: Facts): void {
    const chips = types.slice(0, MAX_TYPES).map(dtypeChip);
    const rest = types.length - chips.length;
    const line = element("p", { class: "model-facts" }, ...facts.map(factNode), chips.length > 0 && element("span", { class: "fact types" }, ...chips, rest > 0 && ` and ${rest} more`), ...this.#more);
    const items = [...facts.map(({ before = "", figure, after = "", source }) => `${[before, figure, after].join(" ").trim()}: ${source}`), ...notes];
    const ask = needsConfig && !this.#isSearched && "address" in this.#model.source && button("Read config.json", () => void this.#readConfig(), { class: "link" });
    const lost = needsConfig && this.#isSearched && this.#config === undefined && !hasListedNeighbours(this.#model) && element("span", { class: "quiet" }, "No config.json could be read here.");
    const sources = items.length > 0 && element("details", { class: "sources" }, element("summary", {}, "How this is known"), element("ul", { class: "plain" }, ...items.map((item) => element("li", {}, item))));
    const wasOpen = this.node.querySelector("details")?.open ?? false;
    if (sources) sources.open = wasOpen;
    this.node.replaceChildren(line, element("div", { class: "below" }, sources, ask, lost));
  }

  async #readConfig(): Promise<void> {
    this.#isSearched = true;
    // Without the file, the line contains only the facts that the shapes prove.
    const found = await this.#engine.call("config", undefined, { signal: this.#closing.signal }).catch(() => undefined);
    if (this.#closing.signal.aborted) return;
    this.#config = found === undefined ? undefined : parseConfig(found, "config.json");
    void this.#load();
  }
}

/** Returns whether the model is in a repository of a hub, or was dropped together with other files. */
function hasListedNeighbours({ source }: OpenedModel): boolean {
  return "file" in source ? source.siblings.some(({ name }) => name === "config.json") : /^hf:\/\/|\/resolve\//.test(source.address);
}

function factNode({ key, before, figure, after, exact, source }: Fact): HTMLElement {
  return element("span", { class: "fact", "data-fact": key, title: source }, before !== undefined && `${before} `, element("b", {}, figure), after !== undefined && ` ${after}`, exact !== undefined && element("span", { class: "exact" }, ` ${exact}`));
}
