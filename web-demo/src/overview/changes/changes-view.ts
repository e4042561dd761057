/** The comparison of two models: the tensors that changed, and by how much. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../../engine/client.js";
import type { Activities } from "../../network/activity.js";
import { button, dataValue, element, select } from "../../page/element.js";
import { errorText } from "../../page/error-text.js";
import { formatBytes, formatCount, formatShare, plural } from "../../page/format.js";
import { isFloat } from "../../tree/dtype-family.js";
import { ownBytes } from "../../tree/node.js";
import { LayerMatrix } from "../layers/matrix.js";
import { boundedStacks, stacksOf } from "../layers/stacks.js";
import { capitalised } from "../picture/legend.js";
import type { Metric } from "../picture/metric.js";
import { MeasuredChanges } from "./measured.js";
import type { Figure } from "./measured.js";
import { changeMetrics, figureText, formatChange } from "./metrics.js";
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
  /** Called when more values have been compared. */
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
  readonly #closing = new AbortController();
  /** The request for the facts that the files record. `#isStated` is true once it has been answered. */
  #stated: Promise<void> | undefined;
  #isStated = false;
  #colour: string | undefined;

  constructor(options: ChangesOptions) {
    this.#options = options;
    const { engine, activities, first, second, onPick } = options;
    this.#pairing = pairingOf(first.tensors, second.tensors);
    const { shared, owners } = this.#pairing;
    const others = new Map(second.tensors.map((tensor) => [tensor.name, tensor]));
    this.#others = others;
    this.#measured = new MeasuredChanges(owners);
    this.#delta = first.kind === "z4dm" ? new Map(first.tensors.map((tensor) => [tensor.name, tensor])) : second.kind === "z4dm" ? others : undefined;
    this.#sampler = new ChangeSampler({
      engine,
      activities,
      shared,
      storedBytesOf: (tensor) => this.#storedBytes([tensor]),
      isLocal: first.isLocal && second.isLocal,
      measured: this.#measured,
      onUpdate: () => this.#refreshSoon(),
    });
    this.metrics = changeMetrics(this.#measured, this.#delta);
    this.#metric = this.#metricOf(undefined);
    this.#matrix = new LayerMatrix({ stacks: boundedStacks(stacksOf(shared)), onPick, unknown: "not compared" });
    this.#ranking = new Ranking({ tensors: shared, measured: this.#measured, onPick });
    this.#build();
  }

  /**
   * Begins with the facts that the files record, which need no download, and then compares values. For a large delta,
   * it shows the stored sizes, and the user decides whether to compare values.
   */
  start(): void {
    if (this.#stated !== undefined || this.#pairing.shared.length === 0) return;
    const { engine } = this.#options;
    const tensors = this.#pairing.shared.map(({ name }) => name);
    this.#stated = engine
      .call("stated", { tensors }, { signal: this.#closing.signal })
      // Without these facts, everything is compared by reading, which reports any error.
      .catch(() => [])
      .then((all) => {
        if (this.#closing.signal.aborted) return;
        this.#measured.state(all);
        this.#isStated = true;
        this.show(this.#colour);
        if (this.#startsAlone) void this.#sampler.run();
      });
  }

  /** Colours everything by the metric with this key; `undefined` for the best available one. */
  show(colour: string | undefined): void {
    this.#colour = colour;
    this.#metric = this.#metricOf(colour);
    const focused = this.#by.contains(document.activeElement);
    this.#by.replaceChildren(select("Colour by", this.metrics.map(({ key, label }) => [key, label] as const), this.#metric.key, this.#options.onColour));
    if (focused) this.#by.querySelector("select")!.focus();
    this.#refresh();
  }

  /** Stops all reads of this view. */
  close(): void {
    cancelAnimationFrame(this.#frame);
    this.#closing.abort();
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
    void this.#matrix.colour(this.#metric);
    this.#ranking.show(this.#metric);
    this.#showFigures();
    this.#showProgress();
  }

  #showFigures(): void {
    const { onlyFirst, onlySecond } = this.#pairing;
    this.#figures.replaceChildren(
      this.#changedTensors(),
      ...this.#changedWeights(),
      figure("Only in A", formatCount(onlyFirst.length), this.#options.first.name),
      figure("Only in B", formatCount(onlySecond.length), this.#options.second.name),
    );
  }

  /** Returns the number of changed tensors, which is exact if the files have digests. */
  #changedTensors(): HTMLElement {
    const { shared, unlike } = this.#pairing;
    const verdicts = shared.map((tensor) => this.#measured.verdict(tensor));
    const count = (verdict: string): number => verdicts.filter((each) => each === verdict).length;
    const [changed, undecided] = [count("changed"), count("undecided")];
    const least = undecided > 0 ? "≥ " : "";
    const notes = [undecided > 0 && `${formatCount(undecided)} not compared in full`, unlike.length > 0 && `${formatCount(unlike.length)} not comparable`];
    const value = element("span", {}, dataValue(changed, `${least}${formatCount(changed)}`), ` of ${formatCount(shared.length)}`);
    return figure("Tensors changed", value, notes.filter((note) => note !== false).join(", ") || "of the same name and shape");
  }

  #changedWeights(): HTMLElement[] {
    const { shared } = this.#pairing;
    const floats = shared.filter(({ dtype }) => isFloat(dtype));
    const weights = floats.length > 0 ? floats : shared;
    const kind = floats.length > 0 ? "floating-point values" : "values";
    const missing = weights.filter((tensor) => !this.#measured.has(tensor)).length;
    const sum = this.#measured.sum(weights, missing > 0);
    const isNothing = weights.every((tensor) => this.#measured.verdict(tensor) === "same");
    // There is no figure until a changed tensor has been measured.
    const isMeasured = sum !== undefined && (isNothing || weights.some((tensor) => this.#measured.has(tensor) && this.#measured.verdict(tensor) !== "same"));
    const shown = (found: Figure | undefined, format: (value: number) => string): HTMLElement | string => {
      // A sample without changes gives no figure for the whole.
      if (!isMeasured || !found || (found.value === 0 && found.margin !== undefined)) return "–";
      const least = Math.max(0, found.value - (found.margin ?? 0));
      return missing > 0 ? dataValue(least, `≥ ${format(least).replace(/^< /, "")}`) : dataValue(found.value, figureText(found, format)!);
    };
    const left = `${plural(missing, "tensor")} not measured`;
    const isUnseen = sum !== undefined && !sum.isExact && sum.changedShare?.value === 0;
    const basis = !isMeasured ? "not measured" : isUnseen ? `no change in ${formatShare(sum.comparedShare)} of the ${kind}` : missing > 0 ? left : sum.isExact ? `all ${kind}` : `from ${formatShare(sum.comparedShare)} of the ${kind}`;
    const norm = !isMeasured ? "not measured" : missing > 0 ? left : sum.isOfChanged ? "by norm, of the changed tensors" : "by norm";
    return [figure("Weights changed", shown(sum?.changedShare, formatShare), basis), figure("Relative change", shown(sum?.relative, formatChange), norm)];
  }

  #showProgress(): void {
    const sampler = this.#sampler;
    const { shared } = this.#pairing;
    if (shared.length === 0) return this.#say(["The models have no tensors in common."]);
    const settled = shared.filter((tensor) => this.#measured.isSettled(tensor)).length;
    const read = formatBytes(this.#measured.fetchedBytes);
    const all = button(`Compare all values (${formatBytes(sampler.leftBytes)})`, () => void sampler.run("whole"), { class: "button small" });
    const more = sampler.hasUntouched ? [button("Continue", () => void sampler.run("sample"), { class: "button small" })] : [];
    const so = `${formatCount(settled)} of ${plural(shared.length, "tensor")} compared in full, ${read} read`;
    const integers = this.#integers;
    if (!this.#isStated) return this.#say(["Comparing the digests of the tensors …"]);
    if (settled === shared.length && sampler.state !== "running") {
      const stated = shared.filter((tensor) => this.#measured.isOnlyStated(tensor)).length;
      const how = stated === 0 ? "All values compared" : `${formatCount(stated)} of ${plural(shared.length, "tensor")} compared by digest, ${formatCount(shared.length - stated)} in full`;
      return this.#say([`${how}, ${read} read.`, integers]);
    }
    if (sampler.state === "new" && !this.#startsAlone) {
      const estimate = button(`Estimate relative change (at most ${formatBytes(sampler.budgetBytes)})`, () => this.#estimate(), { class: "button small" });
      return this.#say(["Stored change: the delta's bytes per byte of the tensor. It shows where the delta is large, and needs no download."], estimate);
    }
    if (sampler.state === "running" || sampler.state === "new") return this.#say([`${so} …`], button("Cancel", () => sampler.stop(), { class: "button small", "aria-label": "Cancel comparing" }));
    if (sampler.state === "failed") return this.#say([`${errorText(sampler.error)} ${so}.`, integers], ...more, all);
    if (sampler.state === "stopped") return this.#say([`Cancelled. ${so}.`, integers], ...more, all);
    const untouched = sampler.state === "over budget" ? "Some tensors were skipped: reading them would exceed the budget." : "";
    return this.#say([`Estimated from a sample of rows: ${so}.`, "± is a 95 % margin, as far as the other rows are like these.", untouched, integers], ...more, all);
  }

  #estimate(): void {
    this.#options.onColour(this.metrics[0]!.key);
    void this.#sampler.run("sample");
  }

  /** Returns the total stored length of tensors in both models. Tied data counts once. */
  #storedBytes(tensors: readonly TensorInfo[]): number {
    return tensors.reduce((sum, tensor) => sum + ownBytes(tensor) + ownBytes(this.#others.get(tensor.name)!), 0);
  }

  /** Returns a sentence about integer tensors, which the figures do not include. */
  get #integers(): string {
    const { shared } = this.#pairing;
    const integers = shared.filter(({ dtype }) => !isFloat(dtype));
    if (integers.length === 0 || integers.length === shared.length) return "";
    const verdicts = integers.map((tensor) => this.#measured.verdict(tensor));
    const changed = verdicts.filter((verdict) => verdict === "changed").length;
    const found = changed > 0 ? `${formatCount(changed)} changed` : verdicts.every((verdict) => verdict === "same") ? "unchanged" : "not compared in full";
    return `${plural(integers.length, integers.some(({ dtype }) => dtype === "BOOL") ? "integer or mask tensor" : "integer tensor")} not counted (${found}).`;
  }

  #say(words: readonly string[], ...buttons: HTMLElement[]): void {
    const text = words.filter((part) => part !== "").join(" ");
    const labels = buttons.map(({ textContent }) => textContent).join("\n");
    if (this.#words.textContent !== text) this.#words.textContent = text;
    // A focused button must not be replaced by an identical one, since it would lose the focus.
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
