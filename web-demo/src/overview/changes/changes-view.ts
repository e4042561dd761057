/** The comparison of two models: the tensors that changed, and by how much. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../../engine/client.js";
import { Turns } from "../../engine/turns.js";
import type { Activities } from "../../network/activity.js";
import { button, dataValue, element, select } from "../../page/element.js";
import { errorText } from "../../page/error-text.js";
import { formatBytes, formatCount, formatShare, plural } from "../../page/format.js";
import type { OpenedModel } from "../../page/opened-model.js";
import { ownBytes } from "../../tree/node.js";
import { LayerMatrix } from "../layers/matrix.js";
import { boundedStacks, stacksInSteps } from "../layers/stacks.js";
import type { BoundedStacks } from "../layers/stacks.js";
import { capitalised } from "../picture/legend.js";
import type { Metric } from "../picture/metric.js";
import { MeasuredChanges } from "./measured.js";
import type { Figure } from "./measured.js";
import { changeMetrics, figureText, formatChange } from "./metrics.js";
import type { DeltaTensors } from "./metrics.js";
import { pairingInSteps } from "./pairing.js";
import type { Pairing } from "./pairing.js";
import { Ranking } from "./ranking.js";
import { ChangeSampler } from "./sampler.js";
import { summaryInSteps } from "./summary.js";
import type { ChangeSummary } from "./summary.js";

/** The maximum number of names in a list of tensors that only one model has. */
const MAX_LISTED = 50;
/** The maximum number of tensors in one request, so that its answer does not block the page. */
const MAX_ASKED = 5000;

export interface ChangesOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly first: OpenedModel;
  readonly second: OpenedModel;
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
  /** True while the changes are being counted. `#isStale` is true if they will be counted once more. */
  #isSummarizing = false;
  #isStale = false;
  readonly #closing = new AbortController();
  /** The request for the facts that the files record. `#isStated` is true once it has been answered. */
  #stated: Promise<void> | undefined;
  #isStated = false;
  #colour: string | undefined;

  /** Pairs the tensors of two models, in slices. Rejects if `signal` is aborted in between. */
  static async of(options: ChangesOptions, signal: AbortSignal): Promise<ChangesView> {
    const turns = new Turns();
    const [first, second] = [await turns.run(options.first.tensors.allInSteps(), signal), await turns.run(options.second.tensors.allInSteps(), signal)];
    const pairing = await turns.run(pairingInSteps(first, second), signal);
    const stacks = await turns.run(stacksInSteps(pairing.shared), signal);
    return new ChangesView(options, first, pairing, boundedStacks(stacks));
  }

  private constructor(options: ChangesOptions, tensors: readonly TensorInfo[], pairing: Pairing, stacks: BoundedStacks) {
    this.#options = options;
    const { engine, activities, first, second, onPick } = options;
    this.#pairing = pairing;
    const { shared, others, owners } = pairing;
    this.#measured = new MeasuredChanges(owners);
    this.#delta = first.kind === "z4dm" ? new Map(tensors.map((tensor) => [tensor.name, tensor])) : second.kind === "z4dm" ? others : undefined;
    this.#sampler = new ChangeSampler({
      engine,
      activities,
      shared,
      storedBytesOf: (tensor) => this.#storedBytes([tensor]),
      isLocal: [first, second].every(({ source }) => "file" in source),
      measured: this.#measured,
      onUpdate: () => this.#refreshSoon(),
    });
    this.metrics = changeMetrics(this.#measured, this.#delta);
    this.#metric = this.#metricOf(undefined);
    this.#matrix = new LayerMatrix({ stacks, onPick, unknown: "not compared" });
    this.#ranking = new Ranking({ measured: this.#measured, onPick });
    this.#build();
  }

  /**
   * Begins with the facts that the files record, which need no download, and then compares values. For a large delta,
   * it shows the stored sizes, and the user decides whether to compare values.
   */
  start(): void {
    if (this.#pairing.shared.length > 0) this.#stated ??= this.#askStated();
  }

  async #askStated(): Promise<void> {
    const { signal } = this.#closing;
    const { shared } = this.#pairing;
    for (let begin = 0; begin < shared.length; begin += MAX_ASKED) {
      const tensors = shared.slice(begin, begin + MAX_ASKED).map(({ name }) => name);
      const stated = await this.#options.engine.call("stated", { tensors }, { signal }).catch(() => undefined);
      // Without these facts, tensors are compared by reading, which reports any error.
      if (!stated) break;
      this.#measured.state(stated);
    }
    if (signal.aborted) return;
    this.#isStated = true;
    this.show(this.#colour);
    if (this.#startsAlone) void this.#sampler.run();
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
    void this.#summarize();
  }

  /** Counts the changes, in slices, and shows the numbers. If there are more changes by then, it counts again. */
  async #summarize(): Promise<void> {
    this.#isStale = true;
    if (this.#isSummarizing) return;
    this.#isSummarizing = true;
    try {
      while (this.#isStale) {
        this.#isStale = false;
        const summary = await new Turns().run(summaryInSteps(this.#pairing.shared, this.#measured), this.#closing.signal);
        this.#ranking.show(this.#metric, summary);
        this.#showFigures(summary);
        this.#showProgress(summary);
      }
    } catch (error) {
      if (!this.#closing.signal.aborted) throw error;
    } finally {
      this.#isSummarizing = false;
    }
  }

  #showFigures(summary: ChangeSummary): void {
    const { onlyFirst, onlySecond } = this.#pairing;
    this.#figures.replaceChildren(
      this.#changedTensors(summary),
      ...changedWeights(summary),
      figure("Only in A", formatCount(onlyFirst.length), this.#options.first.name),
      figure("Only in B", formatCount(onlySecond.length), this.#options.second.name),
    );
  }

  /** Returns the number of changed tensors, which is exact if the files have digests. */
  #changedTensors({ tensors, verdicts: { changed, undecided } }: ChangeSummary): HTMLElement {
    const { unlike } = this.#pairing;
    const least = undecided > 0 ? "≥ " : "";
    const notes = [undecided > 0 && `${formatCount(undecided)} not compared in full`, unlike.length > 0 && `${formatCount(unlike.length)} not comparable`];
    const value = element("span", {}, dataValue(changed, `${least}${formatCount(changed)}`), ` of ${formatCount(tensors)}`);
    return figure("Tensors changed", value, notes.filter((note) => note !== false).join(", ") || "of the same name and shape");
  }

  #showProgress({ tensors, settled, onlyStated, integers }: ChangeSummary): void {
    const sampler = this.#sampler;
    if (tensors === 0) return this.#say(["The models have no tensors in common."]);
    if (!this.#isStated) return this.#say(["Comparing the digests of the tensors …"]);
    const read = formatBytes(this.#measured.fetchedBytes);
    const so = `${formatCount(settled)} of ${plural(tensors, "tensor")} compared in full, ${read} read`;
    const notCounted = integersText(integers);
    if (settled === tensors && sampler.state !== "running") {
      const how = onlyStated === 0 ? "All values compared" : `${formatCount(onlyStated)} of ${plural(tensors, "tensor")} compared by digest, ${formatCount(tensors - onlyStated)} in full`;
      return this.#say([`${how}, ${read} read.`, notCounted]);
    }
    if (sampler.state === "new" && !this.#startsAlone) {
      const estimate = button(`Estimate relative change (at most ${formatBytes(sampler.budgetBytes)})`, () => this.#estimate(), { class: "button small" });
      return this.#say(["Stored change: bytes of the delta per byte of the tensor, known without a download."], estimate);
    }
    if (sampler.state === "running" || sampler.state === "new") return this.#say([`${so} …`], button("Cancel", () => sampler.stop(), { class: "button small", "aria-label": "Cancel comparing" }));
    const all = button(`Compare all values (${formatBytes(sampler.leftBytes)})`, () => void sampler.run("whole"), { class: "button small" });
    const more = sampler.hasUntouched ? [button("Continue", () => void sampler.run("sample"), { class: "button small" })] : [];
    if (sampler.state === "failed") return this.#say([`${errorText(sampler.error)} ${so}.`, notCounted], ...more, all);
    if (sampler.state === "stopped") return this.#say([`Cancelled. ${so}.`, notCounted], ...more, all);
    const untouched = sampler.state === "over budget" ? "Some tensors were skipped: reading them would exceed the budget." : "";
    return this.#say([`Estimated from a sample of rows: ${so}.`, "± is a 95 % margin, as far as the other rows are like these.", untouched, notCounted], ...more, all);
  }

  #estimate(): void {
    this.#options.onColour(this.metrics[0]!.key);
    void this.#sampler.run("sample");
  }

  /** Returns the total stored length of tensors in both models. Tied data counts once. */
  #storedBytes(tensors: readonly TensorInfo[]): number {
    return tensors.reduce((sum, tensor) => sum + ownBytes(tensor) + ownBytes(this.#pairing.others.get(tensor.name)!), 0);
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

/** Returns how many weights changed, and by how much. */
function changedWeights({ hasFloats, missing, sum, isMeasured }: ChangeSummary): HTMLElement[] {
  const kind = hasFloats ? "floating-point values" : "values";
  const shown = (found: Figure | undefined, format: (value: number) => string): HTMLElement | string => {
    // A sample without changes gives no figure for the whole.
    if (!isMeasured || !found || (found.value === 0 && found.margin !== undefined)) return "–";
    const least = Math.max(0, found.value - (found.margin ?? 0));
    return missing > 0 ? dataValue(least, `≥ ${format(least).replace(/^< /, "")}`) : dataValue(found.value, figureText(found, format)!);
  };
  const left = `${plural(missing, "tensor")} not measured`;
  const share = formatShare(sum?.comparedShare ?? 0);
  const isUnseen = sum !== undefined && !sum.isExact && sum.changedShare?.value === 0;
  const basis = !isMeasured ? "not measured" : isUnseen ? `no change in ${share} of the ${kind}` : missing > 0 ? left : sum?.isExact ? `all ${kind}` : `from ${share} of the ${kind}`;
  const norm = !isMeasured ? "not measured" : missing > 0 ? left : sum?.isOfChanged ? "by norm, of the changed tensors" : "by norm";
  return [figure("Weights changed", shown(sum?.changedShare, formatShare), basis), figure("Relative change", shown(sum?.relative, formatChange), norm)];
}

/** Returns a sentence about integer tensors, which the figures do not include. */
function integersText({ tensors, masks, changed, same }: ChangeSummary["integers"]): string {
  if (tensors === 0) return "";
  const found = changed > 0 ? `${formatCount(changed)} changed` : same === tensors ? "unchanged" : "not compared in full";
  return `${plural(tensors, masks > 0 ? "integer or mask tensor" : "integer tensor")} not counted (${found}).`;
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
