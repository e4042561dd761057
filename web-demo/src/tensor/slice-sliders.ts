/** Sliders that select an index of each of the first axes of a tensor of three to five axes. */

import type { TensorInfo } from "zstn";
import type { Slice } from "../engine/protocol.js";
import { sliceAxes } from "../engine/slice.js";
import { element } from "../page/element.js";
import { formatCount } from "../page/format.js";

/** The position of a slider that selects all indices. */
const ALL = -1;

/** Returns a slider for each axis of which an index can be selected; `undefined` if there are none. */
export function sliceSliders(info: TensorInfo, slice: Slice, onSlice: (slice: Slice) => void): HTMLElement | undefined {
  const axes = sliceAxes(info);
  if (axes === 0) return undefined;
  const chosen = Array.from({ length: axes }, (_, axis) => slice[axis] ?? null);
  const sliders = chosen.map((index, axis) => {
    const size = info.shape[axis]!;
    const input = element("input", { type: "range", min: String(ALL), max: String(size - 1), step: "1", value: String(index ?? ALL), "aria-label": `Index of axis ${axis}` });
    const shown = element("output", {});
    const show = () => {
      const text = input.valueAsNumber === ALL ? "all" : formatCount(input.valueAsNumber);
      shown.textContent = `${text} of ${formatCount(size)}`;
      input.setAttribute("aria-valuetext", text);
    };
    show();
    input.addEventListener("input", show);
    input.addEventListener("change", () => {
      chosen[axis] = input.valueAsNumber === ALL ? null : input.valueAsNumber;
      onSlice([...chosen]);
    });
    return element("label", {}, element("span", {}, `Axis ${axis}`), input, shown);
  });
  return element("div", { class: "slice", role: "group", "aria-label": "Slice" }, ...sliders);
}
