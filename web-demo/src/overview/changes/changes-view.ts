/** The comparison of two models: what changed, where, and how much. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../../engine/client.js";
import type { Activities } from "../../network/activity.js";
import { button, dataValue, element, select } from "../../page/element.js";
import { errorText } from "../../page/error-text.js";
import { approximately, formatBytes, formatCount, formatShare, plural } from "../../page/format.js";
import { isFloat } from "../../tree/dtype-family.js";
import { ownBytes } from "../../tree/node.js";
import { LayerMatrix } from "../layers/matrix.js";
import { capitalised } from "../picture/legend.js";
import type { Metric } from "../picture/metric.js";
import { MeasuredChanges } from "./measured.js";
import { changeMetrics, formatChange, isUnchanged } from "./metrics.js";
import type { DeltaTensors } from "./metrics.js";
import { pairingOf } from "./pairing.js";
import type { Pairing } from "./pairing.js";
import { Ranking } from "./ranking.js";
import { ChangeSampler } from "./sampler.js";

/** The maximum number of names in a list of tensors that only one model has. */
const MAX_LISTED = 50;

interface ComparedModel {
  readonly name: string;
  readonly kind: string;
  readonly tensors: readonly TensorInfo[];
  readonly isLocal: boolean;
}

export interface ChangesOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly first: ComparedModel;
  readonly second: ComparedModel;
  /** Called with the key of the metric that the user chose. */
  readonly onColour: (key: string) => void;
  readonly onPick: (tensor: TensorInfo) => void;
  /** Called when more was compared. */
  readonly onUpdate: () => void;
}

export class ChangesView {
  readonly node = element("div", { class: "changes" });
  readonly #options: ChangesOptions;
  readonly #pairing: Pairing;
  readonly #measured: MeasuredChanges;
  readonly #others: ReadonlyMap<string, TensorInfo>;
  readonly #delta: DeltaTensors;
  readonly #sampler: ChangeSampler;
  readonly #figures = element("dl", { class: "figures" });
  readonly #progress = element("div", { class: "progress-line" });
  readonly #words = element("span", {});
  readonly #matrix: LayerMatrix;
  readonly #ranking: Ranking;
  readonly metrics: readonly Metric[];
  readonly #by = element("div", {});
  #metric: Metric;
  #frame = 0;

  constructor(options: ChangesOptions) {
    this.#options = options;
    const { engine, activities, first, second, onPick } = options;
    this.#pairing = pairingOf(first.tensors, second.tensors);
    const { shared, owners } = this.#pairing;
    const others = new Map(second.tensors.map((tensor) => [tensor.name, tensor]));
    this.#others = others;
    this.#measured = new MeasuredChanges(owners);
    this.#delta = first.kind === "z4dm" ? new Map(first.tensors.map((tensor) => [tensor.name, tensor])) : second.kind === "z4dm" ? others : undefined;
    const storedBytes = this.#storedBytes(shared);
    this.#sampler = new ChangeSampler({
      engine,
      activities,
      shared,
      storedBytes,
      storedBytesOf: (tensor) => this.#storedBytes([tensor]),
      isLocal: first.isLocal && second.isLocal,
      measured: this.#measured,
      onUpdate: () => this.#refreshSoon(),
    });
    this.metrics = changeMetrics(this.#measured, this.#delta);
    this.#metric = this.#metricOf(undefined);
    const isEstimate = (tensor: TensorInfo): boolean => this.#metric.key !== "stored" && !isUnchanged([tensor], this.#delta) && this.#measured.of(tensor)?.exact !== true;
    this.#matrix = new LayerMatrix({ tensors: shared, onPick, unknown: "not compared" });
    this.#ranking = new Ranking({ tensors: shared, onPick, isEstimate });
    this.#build();
  }

  /** Begins to read, unless it has begun. A large delta is shown by what it stores, which costs nothing: reading is then up to the user. */
  start(): void {
    if (this.#sampler.state === "new" && this.#startsAlone && this.#pairing.shared.length > 0) void this.#sampler.run();
  }

  /** Colours everything by the metric of that key; `undefined` for the best one. */
  show(colour: string | undefined): void {
    this.#metric = this.#metricOf(colour);
    const focused = this.#by.contains(document.activeElement);
    this.#by.replaceChildren(select("Colour by", this.metrics.map(({ key, label }) => [key, label] as const), this.#metric.key, this.#options.onColour));
    if (focused) this.#by.querySelector("select")!.focus();
    this.#refresh();
  }

  /** Stops reading. */
  close(): void {
    cancelAnimationFrame(this.#frame);
    this.#sampler.close();
  }

  get #startsAlone(): boolean {
    return !this.#delta || this.#sampler.isSmall;
  }

  #metricOf(key: string | undefined): Metric {
    const best = this.#startsAlone ? this.metrics[0]! : this.metrics.at(-1)!;
    return this.metrics.find((metric) => metric.key === key) ?? best;
  }

  #build(): void {
    const { first, second } = this.#options;
    const { onlyFirst, onlySecond, unlike } = this.#pairing;
    const head = element("div", { class: "card-head" }, element("h2", {}, "Change by layer"), this.#by);
    const cards = [
      names(`Only in ${first.name}`, onlyFirst, this.#options.onPick),
      names(`Only in ${second.name}`, onlySecond),
      names("Not comparable: another shape or type", unlike, this.#options.onPick),
    ].filter((card) => card !== undefined);
    this.node.append(this.#figures, this.#progress, element("section", { class: "card wide" }, head, this.#matrix.node), this.#ranking.node, element("div", { class: "cards" }, ...cards));
  }

  #refreshSoon(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      this.#refresh();
      this.#options.onUpdate();
    });
  }

  #refresh(): void {
    this.#matrix.colour(this.#metric);
    this.#ranking.show(this.#metric);
    this.#showFigures();
    this.#showProgress();
  }

  #showFigures(): void {
    const { shared, onlyFirst, onlySecond, unlike } = this.#pairing;
    const floats = shared.filter(({ dtype }) => isFloat(dtype));
    const weights = floats.length > 0 ? floats : shared;
    const kind = floats.length > 0 ? "float weights" : "values";
    const sum = this.#measured.sum(weights);
    const measuredTensors = weights.filter((tensor) => this.#measured.has(tensor)).length;
    const basis = !sum ? "not compared yet" : measuredTensors < weights.length ? `${kind} of ${plural(measuredTensors, "compared tensor")}` : sum.isExact ? `all ${kind} compared` : `from ${formatShare(sum.comparedShare)} of the ${kind}`;
    const percent = (value: number | undefined, format: (value: number) => string): HTMLElement | string => (value === undefined ? "–" : dataValue(value, sum?.isExact ? format(value) : approximately(format(value))));
    this.#figures.replaceChildren(
      figure("Shared tensors", formatCount(shared.length), unlike.length > 0 ? `${formatCount(unlike.length)} not comparable` : "by name"),
      figure("Only here", formatCount(onlyFirst.length), this.#options.first.name),
      figure("Only there", formatCount(onlySecond.length), this.#options.second.name),
      figure("Weights changed", percent(sum?.changedShare, formatShare), basis),
      figure("Relative change", percent(sum?.relative, formatChange), floats.length > 0 ? "by norm, of float weights" : "by norm"),
    );
  }

  #showProgress(): void {
    const sampler = this.#sampler;
    const { shared } = this.#pairing;
    const compared = shared.filter((tensor) => this.#measured.has(tensor)).length;
    const isWhole = compared === shared.length && shared.every((tensor) => this.#measured.of(tensor)?.exact);
    const read = formatBytes(this.#measured.fetchedBytes);
    const left = shared.filter((tensor) => this.#measured.of(tensor)?.wholeBytes !== undefined && !this.#measured.has(tensor)).length;
    const wholeBytes = this.#wholeBytes();
    const all = button(`Compare all values (${formatBytes(wholeBytes)})`, () => void sampler.run("whole"), { class: "button small" });
    const more = button("Continue", () => void sampler.run("sample"), { class: "button small" });
    const so = `${formatCount(compared)} of ${plural(shared.length, "tensor")} compared, ${read} read`;
    const integers = this.#integers;
    if (shared.length === 0) return this.#say(["The models have no tensors in common."]);
    if (sampler.state === "new" && !this.#startsAlone) {
      const estimate = button(`Estimate relative change (at most ${formatBytes(sampler.budgetBytes)})`, () => this.#estimate(), { class: "button small" });
      return this.#say(["Stored change: the delta's bytes per byte of the tensor. It says where the delta is large, and costs no reading."], estimate);
    }
    if (sampler.state === "running" || sampler.state === "new") return this.#say([`${so}${sampler.isSmall ? "" : `, at most ${formatBytes(sampler.budgetBytes)}`} …`], button("Cancel", () => sampler.stop(), { class: "button small", "aria-label": "Cancel comparing" }));
    if (isWhole) return this.#say([`All values compared, ${read} read.`, integers]);
    if (sampler.state === "failed") return this.#say([`${errorText(sampler.error)} ${so}.`, integers], more, all);
    if (sampler.state === "stopped") return this.#say([`Cancelled. ${so}.`, integers], more, all);
    if (sampler.state === "over budget") return this.#say([`Estimated from a sample: ${so}.`, integers], more, all);
    const whole = left > 0 ? ` ${plural(left, "tensor")} can only be loaded whole and ${left === 1 ? "is" : "are"} left out.` : "";
    return this.#say([`Estimated from a sample of rows: ${so}.${whole}`, integers], all);
  }

  #estimate(): void {
    this.#options.onColour(this.metrics[0]!.key);
    void this.#sampler.run("sample");
  }

  /** Returns the cost of comparing all values, in bytes. */
  #wholeBytes(): number {
    return this.#storedBytes(this.#pairing.shared.filter((tensor) => this.#measured.of(tensor)?.exact !== true));
  }

  /** Returns the stored bytes of tensors in both models. Tied data is read once. */
  #storedBytes(tensors: readonly TensorInfo[]): number {
    return tensors.reduce((sum, tensor) => sum + ownBytes(tensor) + ownBytes(this.#others.get(tensor.name)!), 0);
  }

  /** Returns a sentence about tensors of integers, which no figure includes. */
  get #integers(): string {
    const { shared } = this.#pairing;
    const integers = shared.filter(({ dtype }) => !isFloat(dtype));
    if (integers.length === 0 || integers.length === shared.length) return "";
    const compared = integers.filter((tensor) => this.#measured.has(tensor));
    const differ = compared.filter((tensor) => this.#measured.of(tensor)!.changed > 0).length;
    const found = compared.length === 0 ? "" : differ > 0 ? `, of which ${formatCount(differ)} changed` : compared.length === integers.length ? ", no change seen" : "";
    return `The figures leave out ${plural(integers.length, "integer or mask tensor")}${found}.`;
  }

  #say(words: readonly string[], ...buttons: HTMLElement[]): void {
    const text = words.filter((part) => part !== "").join(" ");
    const labels = buttons.map(({ textContent }) => textContent).join("\n");
    if (this.#words.textContent !== text) this.#words.textContent = text;
    // A button that has the focus is not replaced by its like.
    if (this.#progress.dataset["buttons"] === labels) return;
    this.#progress.dataset["buttons"] = labels;
    this.#progress.replaceChildren(this.#words, ...(buttons.length > 0 ? [element("span", { class: "buttons" }, ...buttons)] : []));
  }
}

function figure(label: string, value: HTMLElement | string, note: string): HTMLElement {
  return element("div", { class: "figure" }, element("dt", {}, capitalised(label)), element("dd", {}, value), element("dd", { class: "note", title: note }, note));
}

function names(title: string, tensors: readonly TensorInfo[], onPick?: (tensor: TensorInfo) => void): HTMLElement | undefined {
  if (tensors.length === 0) return undefined;
  const items = tensors.slice(0, MAX_LISTED).map((tensor) => element("li", {}, onPick ? button(tensor.name, () => onPick(tensor), { class: "link" }) : element("span", { class: "mono" }, tensor.name)));
  const rest = tensors.length - items.length;
  return element("section", { class: "card" }, element("h2", {}, title), element("ul", { class: "plain" }, ...items), rest > 0 && element("p", { class: "quiet" }, `and ${formatCount(rest)} more`));
}
