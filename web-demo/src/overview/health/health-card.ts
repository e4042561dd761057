/** The card that shows whether a model is healthy, from statistics that its file contains. */

import type { Engine } from "../../engine/client.js";
import { StatisticsTable } from "../../engine/statistics-table.js";
import type { Activities } from "../../network/activity.js";
import { button, element } from "../../page/element.js";
import { isAbort, errorText } from "../../page/error-text.js";
import { formatBytes, formatCount, plural } from "../../page/format.js";
import type { OpenedModel } from "../../page/opened-model.js";
import { PROBLEMS } from "./checks.js";
import type { Problem } from "./checks.js";
import { FindingPlace } from "./finding-place.js";
import type { PickPlace } from "./finding-place.js";
import type { HealthLine, HealthReport } from "./report.js";

export interface HealthOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly model: OpenedModel;
  /** The statistics in the file; resolves to `undefined` if it has none. */
  readonly statistics: Promise<StatisticsTable | undefined>;
  readonly onPick: PickPlace;
  /** Called to show the view that contains the card, if another one is shown. */
  readonly onReveal: () => void;
  /** Called with the statistics that the user had measured. */
  readonly onMeasured: (statistics: StatisticsTable) => void;
}

/** The longest model whose values the page reads for a check, in stored bytes. */
const MAX_BYTES = { address: 300e6, file: 2e9 };
/** The maximum number of lines for a problem that are shown at first. */
const FEW_LINES = 5;

const TITLES: Readonly<Record<Problem, string>> = { nan: "NaN", infinite: "Infinite values", zero: "Only zeros", dead: "Rows of zeros", outlier: "Outliers", unlike: "Unlike the same module in other layers" };
/** What "nothing found" means for each problem. */
const ABSENT: Readonly<Record<Problem, string>> = { nan: "no NaN", infinite: "no infinite values", zero: "no tensor of zeros", dead: "no sign of rows of zeros", outlier: "no outliers", unlike: "no matrix with over twice or under half the median RMS of its module" };

export class HealthCard {
  // Firefox ESR crashes when the card is labelled by its heading (`aria-labelledby`).
  readonly node = element("section", { class: "card wide health", "aria-label": "Health" });
  /** A button with the result, which leads to this card. */
  readonly summary = button("", () => this.#reveal(), { class: "link verdict", hidden: true });
  readonly #options: HealthOptions;
  readonly #body = element("div", {});
  readonly #closing = new AbortController();

  constructor(options: HealthOptions) {
    this.#options = options;
    this.node.append(element("h2", {}, "Health"), this.#body);
    this.#body.append(element("p", { class: "quiet" }, "Checking…"));
    void options.statistics.then((statistics) => {
      if (this.#closing.signal.aborted) return;
      if (statistics) void this.#check(false);
      else this.#offer();
    });
  }

  close(): void {
    this.#closing.abort();
  }

  #reveal(): void {
    if (!this.node.isConnected) this.#options.onReveal();
    this.node.scrollIntoView({ block: "start" });
  }

  /** Explains that the file has no statistics, and offers to measure them if the page can read the whole model. */
  #offer(problem?: string): void {
    const { model } = this.#options;
    const { tensors, bytes } = model.figures.floats;
    if (tensors === 0) return void this.node.remove();
    const limit = "file" in model.source ? MAX_BYTES.file : MAX_BYTES.address;
    const reason = model.kind === "z4dm" ? "A delta stores no statistics of its tensors, so nothing has been checked." : `This ${model.kind === "zstn" ? "file has" : "format has"} no stored statistics, so nothing has been checked.`;
    const isAffordable = bytes <= limit;
    const way = isAffordable ? "" : ` Its tensors take ${formatBytes(bytes)}, more than this page reads at once (${formatBytes(limit)}). Files packed by zstn contain statistics.`;
    this.#body.replaceChildren(
      element("p", { class: "quiet" }, reason + way),
      ...(problem === undefined ? [] : [element("p", { class: "odd" }, problem)]),
      ...(isAffordable ? [button(`Check all values (reads ${formatBytes(bytes)})`, () => void this.#measure(), { class: "button small" })] : []),
    );
  }

  async #measure(): Promise<void> {
    const { engine, activities, onMeasured } = this.#options;
    this.#body.replaceChildren(element("p", { class: "quiet" }, "Reading all tensors…"));
    try {
      const measured = await activities.run("Checking all values", (options) => engine.call("measure", { slot: "first" }, options), this.#closing.signal);
      if (!measured) return this.#offer("No tensor could be read.");
      await this.#check(true);
      onMeasured(new StatisticsTable(measured));
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#offer(isAbort(error) ? "Cancelled." : errorText(error));
    }
  }

  /** Shows the findings in the statistics: those of the file, or those that were measured. */
  async #check(isMeasured: boolean): Promise<void> {
    const { engine, model } = this.#options;
    const { signal } = this.#closing;
    const report = await engine.call("health", { slot: "first", generation: model.generation }, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    if (report) this.#present(report, isMeasured);
    else this.#offer();
  }

  #present(report: HealthReport, isMeasured: boolean): void {
    const { findings, affected, floats, checked, problems } = report;
    if (floats === 0) return void this.node.remove();
    if (checked === 0) return this.#offer(isMeasured ? "No tensor could be read." : undefined);
    this.summary.hidden = false;
    this.summary.textContent = findings === 0 ? "health: nothing found" : `health: ${plural(findings, "finding")}`;
    this.summary.classList.toggle("bad", problems.some(({ problem }) => problem === "nan" || problem === "infinite"));
    const verdict = findings === 0 ? "Nothing found." : `${plural(findings, "finding")} in ${plural(affected, "tensor")}.`;
    this.#body.replaceChildren(
      element("p", { class: "verdict" }, element("b", {}, verdict), ` ${checkedText(report, isMeasured)}`),
      ...problems.map((problem) => this.#section(problem)),
    );
  }

  #section({ problem, findings, lines, hidden }: HealthReport["problems"][number]): HTMLElement {
    const list = element("ul", { class: "findings" }, ...lines.slice(0, FEW_LINES).map((line) => this.#line(problem, line)));
    const rest = lines.slice(FEW_LINES);
    const more = button(`Show ${formatCount(rest.length)} more`, () => {
      list.append(...rest.map((line) => this.#line(problem, line)));
      more.remove();
    }, { class: "button small" });
    return element("section", { "data-problem": problem }, element("h3", {}, TITLES[problem], element("span", { class: "quiet" }, ` ${formatCount(findings)}`)), list, rest.length > 0 && more, hidden > 0 && element("p", { class: "quiet" }, `and ${plural(hidden, "more line")}`));
  }

  #line(problem: Problem, { name, index, tensors, text }: HealthLine): HTMLElement {
    const { engine, activities, model, onPick } = this.#options;
    const tensor = model.tensors.at(index);
    const words = tensors > 1 ? `${plural(tensors, "tensor")}, the first with ${text}` : text;
    const place = tensors > 1 || problem === "zero" || problem === "unlike" ? undefined : new FindingPlace({ engine, activities, tensor, problem, generation: model.generation, onPick, signal: this.#closing.signal });
    return element("li", {}, button(name || "(no name)", () => onPick(tensor), { class: "link" }), element("span", {}, words), place?.node);
  }
}

/** States which tensors were checked, and which problems none of them has. */
function checkedText({ problems, checked, floats, compared }: HealthReport, isMeasured: boolean): string {
  const verb = isMeasured ? (checked === 1 ? "was read in full" : "were read in full") : checked === 1 ? "has stored statistics" : "have stored statistics";
  const absent = PROBLEMS.filter((problem) => !problems.some((found) => found.problem === problem) && (problem !== "unlike" || compared > 0)).map((problem) => ABSENT[problem]);
  const rest = floats - checked;
  return `${formatCount(checked)} of ${plural(floats, "floating-point tensor")} ${verb}${absent.length > 0 ? `: ${absent.join(", ")}` : ""}.${rest > 0 ? ` The other ${formatCount(rest)} could not be checked.` : ""}`;
}
