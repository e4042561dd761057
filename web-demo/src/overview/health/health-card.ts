/** The card that shows whether a model is healthy, from statistics that its file contains. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../../engine/client.js";
import type { Measured } from "../../engine/protocol.js";
import type { Activities } from "../../network/activity.js";
import { button, element } from "../../page/element.js";
import { isAbort, errorText } from "../../page/error-text.js";
import { formatBytes, formatCount, plural } from "../../page/format.js";
import type { OpenedModel } from "../../page/opened-model.js";
import { isFloat } from "../../tree/dtype-family.js";
import { ownBytes } from "../../tree/node.js";
import { placeOf } from "../layers/stacks.js";
import { checkup, PROBLEMS } from "./checks.js";
import type { Checkup, Finding, Problem } from "./checks.js";
import { FindingPlace } from "./finding-place.js";
import type { PickPlace } from "./finding-place.js";

export interface HealthOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly model: OpenedModel;
  /** The statistics in the file; resolves to `undefined` if it has none. */
  readonly statistics: Promise<ReadonlyMap<string, Measured> | undefined>;
  readonly onPick: PickPlace;
  /** Called to show the view that contains the card, if another one is shown. */
  readonly onReveal: () => void;
  /** Called with the statistics that the user had measured. */
  readonly onMeasured: (statistics: ReadonlyMap<string, Measured>) => void;
}

/** The longest model whose values the page reads for a check, in stored bytes. */
const MAX_BYTES = { address: 300e6, file: 2e9 };
/** The maximum number of lines for a problem that are shown at first. */
const FEW_LINES = 5;
const MAX_LINES = 60;
/** Findings of one module in more tensors than this share a line. */
const MAX_ALONE = 3;

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
      if (statistics && statistics.size > 0) this.#present(statistics, false);
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

  get #floats(): readonly TensorInfo[] {
    return this.#options.model.tensors.filter(({ dtype, shape, aliasOf }) => isFloat(dtype) && !shape.includes(0) && aliasOf === undefined);
  }

  /** Explains that the file has no statistics, and offers to measure them if the page can read the whole model. */
  #offer(problem?: string): void {
    const { model } = this.#options;
    const floats = this.#floats;
    if (floats.length === 0) return void this.node.remove();
    // A tensor of a delta also needs the one in its base, whose stored length is not known here.
    const bytes = floats.reduce((sum, tensor) => sum + (tensor.base === undefined ? ownBytes(tensor) : tensor.byteLength), 0);
    const limit = "file" in model.source ? MAX_BYTES.file : MAX_BYTES.address;
    const reason = model.kind === "z4dm" ? "A delta stores no statistics of its tensors, so nothing has been checked." : `This ${model.kind === "zstn" ? "file has" : "format has"} no stored statistics, so nothing has been checked.`;
    const isAffordable = bytes <= limit;
    const way = isAffordable ? "" : ` Its tensors take ${formatBytes(bytes)}, more than this page reads at once (${formatBytes(limit)}). Files that zstn pack has written contain statistics.`;
    this.#body.replaceChildren(
      element("p", { class: "quiet" }, reason + way),
      ...(problem === undefined ? [] : [element("p", { class: "odd" }, problem)]),
      ...(isAffordable ? [button(`Check all values (reads ${formatBytes(bytes)})`, () => void this.#measure(), { class: "button small" })] : []),
    );
  }

  async #measure(): Promise<void> {
    const { engine, activities, model, onMeasured } = this.#options;
    this.#body.replaceChildren(element("p", { class: "quiet" }, "Reading all tensors…"));
    const names = this.#floats.map(({ name }) => name);
    try {
      const measured = new Map(await activities.run("Checking all values", (options) => engine.call("measure", { slot: "first", tensors: names }, options), this.#closing.signal));
      // Tensors with the same bytes have the same statistics.
      for (const { name, aliasOf } of model.tensors) {
        const shared = aliasOf === undefined ? undefined : measured.get(aliasOf);
        if (shared) measured.set(name, shared);
      }
      this.#present(measured, true);
      onMeasured(measured);
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#offer(isAbort(error) ? "Cancelled." : errorText(error));
    }
  }

  #present(statistics: ReadonlyMap<string, Measured>, isMeasured: boolean): void {
    const result = checkup(this.#options.model.tensors, statistics);
    const { findings, floats, checked } = result;
    if (floats === 0) return void this.node.remove();
    if (checked === 0) return this.#offer(isMeasured ? "No tensor could be read." : undefined);
    const affected = new Set(findings.map(({ tensor }) => tensor)).size;
    this.summary.hidden = false;
    this.summary.textContent = findings.length === 0 ? "health: nothing found" : `health: ${plural(findings.length, "finding")}`;
    this.summary.classList.toggle("bad", findings.some(({ problem }) => problem === "nan" || problem === "infinite"));
    const verdict = findings.length === 0 ? "Nothing found." : `${plural(findings.length, "finding")} in ${plural(affected, "tensor")}.`;
    this.#body.replaceChildren(
      element("p", { class: "verdict" }, element("b", {}, verdict), ` ${checkedText(result, isMeasured)}`),
      ...PROBLEMS.flatMap((problem) => {
        const some = findings.filter((finding) => finding.problem === problem);
        return some.length === 0 ? [] : [this.#section(problem, some)];
      }),
    );
  }

  #section(problem: Problem, findings: readonly Finding[]): HTMLElement {
    const lines = linesOf(findings);
    const list = element("ul", { class: "findings" }, ...lines.slice(0, FEW_LINES).map((line) => this.#line(line)));
    const rest = lines.slice(FEW_LINES, MAX_LINES);
    const more = button(`Show ${formatCount(rest.length)} more`, () => {
      list.append(...rest.map((line) => this.#line(line)));
      more.remove();
    }, { class: "button small" });
    const hidden = lines.length - FEW_LINES - rest.length;
    return element("section", { "data-problem": problem }, element("h3", {}, TITLES[problem], element("span", { class: "quiet" }, ` ${formatCount(findings.length)}`)), list, rest.length > 0 && more, hidden > 0 && element("p", { class: "quiet" }, `and ${plural(hidden, "more line")}`));
  }

  #line(findings: readonly Finding[]): HTMLElement {
    const { engine, activities, model, onPick } = this.#options;
    const [first] = findings as [Finding];
    const { tensor, text, problem } = first;
    if (findings.length > 1) {
      const words = `${plural(findings.length, "tensor")}, the first with ${text}`;
      return element("li", {}, button(patternOf(findings), () => onPick(tensor), { class: "link" }), element("span", {}, words));
    }
    const place = problem === "zero" || problem === "unlike" ? undefined : new FindingPlace({ engine, activities, tensor, problem, generation: model.generation, onPick, signal: this.#closing.signal });
    return element("li", {}, button(tensor.name || "(no name)", () => onPick(tensor), { class: "link" }), element("span", {}, text), place?.node);
  }
}

/** States which tensors were checked, and which problems none of them has. */
function checkedText({ findings, checked, floats, compared }: Checkup, isMeasured: boolean): string {
  const verb = isMeasured ? (checked === 1 ? "was read in full" : "were read in full") : checked === 1 ? "has stored statistics" : "have stored statistics";
  const absent = PROBLEMS.filter((problem) => !findings.some((finding) => finding.problem === problem) && (problem !== "unlike" || compared > 0)).map((problem) => ABSENT[problem]);
  const rest = floats - checked;
  return `${formatCount(checked)} of ${plural(floats, "floating-point tensor")} ${verb}${absent.length > 0 ? `: ${absent.join(", ")}` : ""}.${rest > 0 ? ` The other ${formatCount(rest)} could not be checked.` : ""}`;
}

/** Arranges findings in lines. Many tensors of the same module, such as a bias in every layer, share a line. */
function linesOf(findings: readonly Finding[]): (readonly Finding[])[] {
  const groups = new Map<string, Finding[]>();
  for (const finding of findings) {
    const place = placeOf(finding.tensor);
    const key = place ? `${place.prefix} ${place.kind}` : finding.tensor.name;
    const group = groups.get(key);
    if (group) group.push(finding);
    else groups.set(key, [finding]);
  }
  return [...groups.values()].flatMap((group) => (group.length > MAX_ALONE ? [group] : group.map((finding) => [finding])));
}

/** Returns the common name of tensors, with `*` for the components that differ. */
function patternOf(findings: readonly Finding[]): string {
  const [first, ...others] = findings.map(({ tensor }) => tensor.name.split("."));
  return first!.map((part, i) => (others.every((other) => other[i] === part) ? part : "*")).join(".");
}
