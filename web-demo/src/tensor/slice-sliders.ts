/** Controls that choose the slice of a tensor of three to five axes: the axes of rows and columns, and an index of others. */

import type { TensorInfo } from "zstn";
import type { Slice } from "../engine/protocol.js";
import { axesOf, hasAxes, sliceAxes } from "../engine/slice.js";
import { element, select } from "../page/element.js";
import { formatCount } from "../page/format.js";

/** The position of a slider that selects all indices. */
const ALL = -1;

/** The value of a choice of an axis that keeps the order of the axes. */
const STORED = "";

/** Returns the controls of the slice; `undefined` for a tensor without slices. */
export function sliceControls(info: TensorInfo, given: Slice, onSlice: (slice: Slice) => void): HTMLElement | undefined {
  const { shape } = info;
  const first = sliceAxes(info);
  if (first === 0) return undefined;
  let slice = given;
  const sliders = element("div", { class: "sliders" });
  const change = (next: Slice) => {
    slice = next;
    onSlice(next);
  };

  const showSliders = () => {
    const isNamed = axesOf(slice) !== undefined;
    const shown = isNamed ? shape.flatMap((_, axis) => (typeof slice[axis] === "number" ? [axis] : [])) : shape.slice(0, first).map((_, axis) => axis);
    sliders.replaceChildren(...shown.map((axis) => slider(axis, isNamed ? 0 : ALL)));
  };
  const slider = (axis: number, least: number): HTMLElement => {
    const size = shape[axis]!;
    const entry = slice[axis];
    const input = element("input", { type: "range", min: String(least), max: String(size - 1), step: "1", value: String(typeof entry === "number" ? entry : ALL), "aria-label": `Index of axis ${axis}` });
    const shown = element("output", {});
    const show = () => {
      const text = input.valueAsNumber === ALL ? "all" : formatCount(input.valueAsNumber);
      shown.textContent = `${text} of ${formatCount(size)}`;
      input.setAttribute("aria-valuetext", text);
    };
    show();
    input.addEventListener("input", show);
    input.addEventListener("change", () => {
      const index = input.valueAsNumber === ALL ? null : input.valueAsNumber;
      const all = axesOf(slice) ? [...slice] : Array.from({ length: first }, (_, other) => slice[other] ?? null);
      change(all.with(axis, index));
    });
    return element("label", {}, element("span", {}, `Axis ${axis}`), input, shown);
  };

  const chosen = (kind: "rows" | "columns") => String(axesOf(slice)?.[kind] ?? STORED);
  const pick = (kind: "rows" | "columns", value: string) => {
    const indexOf = (axis: number) => (typeof slice[axis] === "number" ? slice[axis] : undefined);
    if (value === STORED) {
      change(Array.from({ length: first }, (_, axis) => indexOf(axis) ?? null));
    } else {
      const before = axesOf(slice) ?? { rows: first, columns: first + 1 };
      const [axis, other] = [Number(value), kind === "rows" ? before.columns : before.rows];
      // If the axis is taken, the two change places.
      const moved = axis === other ? before[kind] : other;
      change(shape.map((_, at) => (at === axis ? kind : at === moved ? (kind === "rows" ? "columns" : "rows") : (indexOf(at) ?? 0))));
    }
    lists.forEach((list, i) => (list.querySelector("select")!.value = chosen(KINDS[i]![0])));
    showSliders();
  };
  const options = [[STORED, "as stored"] as const, ...shape.map((size, axis) => [String(axis), `axis ${axis} (${formatCount(size)})`] as const)];
  const lists = hasAxes(info) ? KINDS.map(([kind, label]) => select(label, options, chosen(kind), (value) => pick(kind, value))) : [];
  showSliders();
  return element("div", { class: "slice", role: "group", "aria-label": "Slice" }, ...lists, sliders);
}

const KINDS = [["rows", "Rows"], ["columns", "Columns"]] as const;
