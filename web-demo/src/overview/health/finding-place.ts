/** The place of a finding in its tensor: the rows where stored statistics locate it, or the exact rows after reading them. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../../engine/client.js";
import type { Located } from "../../engine/protocol.js";
import { matrixShape } from "../../engine/shape.js";
import type { Activities } from "../../network/activity.js";
import { button, element } from "../../page/element.js";
import { errorText, isAbort } from "../../page/error-text.js";
import { formatBytes, formatCount } from "../../page/format.js";
import type { Route } from "../../page/route.js";
import type { Problem } from "./checks.js";
import { placesOf, rangesOf, rangesText } from "./places.js";
import type { RowsRange } from "./places.js";

/** The view of a place in a tensor. */
export type PlaceView = Pick<Route, "at" | "pin">;

/** Opens a tensor, and shows a place in it if one is given. */
export type PickPlace = (tensor: TensorInfo, view?: PlaceView) => void;

export interface FindingPlaceOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly tensor: TensorInfo;
  readonly problem: Exclude<Problem, "zero" | "unlike">;
  readonly generation: number;
  readonly onPick: PickPlace;
  readonly signal: AbortSignal;
}

/** The number of rows shown around a row that was found. */
const ROWS_AROUND = 12;

export class FindingPlace {
  readonly node = element("span", { class: "place" });
  readonly #options: FindingPlaceOptions;
  readonly #rows: number;
  readonly #columns: number;
  #places: readonly RowsRange[] | undefined;

  constructor(options: FindingPlaceOptions) {
    this.#options = options;
    const { dtype, shape } = options.tensor;
    ({ rows: this.#rows, columns: this.#columns } = matrixShape(dtype === "C64" ? [...shape, 2] : shape));
    // The elements of a vector are visible at a glance.
    if (this.#columns > 1 && this.#rows > 1) void this.#loadBands();
  }

  get #of() {
    const { tensor, generation } = this.#options;
    return { slot: "first", tensor: tensor.name, generation } as const;
  }

  /** Loads the figures of the bands of the tensor: a few bytes, which may have been fetched with the index. */
  async #loadBands(): Promise<void> {
    const { engine, problem, signal } = this.#options;
    const figures = await engine.call("bands", { of: this.#of }, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    this.#places = placesOf(problem, figures, this.#rows, this.#columns);
    this.#show();
  }

  #show(): void {
    const places = this.#places;
    const [first] = places ?? [];
    const link = places && first && button(rangesText(places), () => this.#options.onPick(this.#options.tensor, this.#viewOf(first)), { class: "link" });
    const isExact = places?.every(([begin, end]) => end === begin + 1) ?? false;
    const ranges = places ?? [[0, this.#rows] as const];
    const bytes = (this.#options.tensor.storedLength / this.#rows) * ranges.reduce((sum, [begin, end]) => sum + end - begin, 0);
    const words = this.#options.problem === "outlier" ? "Find the cell" : "Find the rows";
    const find = !isExact && button(`${words} (about ${formatBytes(Math.ceil(bytes))})`, () => void this.#find(ranges), { class: "button small" });
    this.node.replaceChildren(...[link, find].filter((node) => node !== undefined && node !== false));
  }

  async #find(ranges: readonly RowsRange[]): Promise<void> {
    const { engine, activities, tensor, problem, signal } = this.#options;
    this.node.replaceChildren(element("span", { class: "quiet" }, "Reading…"));
    try {
      const located = await activities.run(`Rows of ${tensor.name}`, (options) => engine.call("locate", { of: this.#of, ranges, problem }, options), signal);
      this.#showLocated(located);
    } catch (error) {
      if (signal.aborted) return;
      this.#show();
      if (!isAbort(error)) this.node.append(element("span", { class: "odd" }, errorText(error)));
    }
  }

  #showLocated({ rows, count, column }: Located): void {
    const [first] = rows;
    if (first === undefined) return this.node.replaceChildren(element("span", {}, this.#options.problem === "dead" ? "no row contains only zeros" : "not found"));
    const found = rangesOf(rows);
    const text = `${rangesText(found)}${count > rows.length ? " …" : ""}${column !== undefined && count === 1 ? `, column ${formatCount(column)}` : ""}`;
    const counted = count > 1 ? `${formatCount(count)} rows: ` : "";
    const view = { ...this.#viewOf([first, found[0]![1]]), ...(count === 1 && column !== undefined && { pin: `${first},${column}` }) };
    this.node.replaceChildren(element("span", {}, counted), button(text, () => this.#options.onPick(this.#options.tensor, view), { class: "link" }));
  }

  /** Returns the view of a range of rows: over all columns, with a few rows around a short range. */
  #viewOf([begin, end]: RowsRange): PlaceView {
    const around = end - begin < 2 * ROWS_AROUND ? ROWS_AROUND : 0;
    return { at: `${Math.max(0, begin - around)}-${Math.min(this.#rows, end + around)},0-${this.#columns}` };
  }
}
