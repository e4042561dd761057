/** The totals of a model. */

import type { OpenedModel } from "../page/opened-model.js";
import { element } from "../page/element.js";
import { formatBytes, formatCount, formatRatio, formatShare } from "../page/format.js";
import { dtypeFamily } from "../tree/dtype-family.js";
import { dtypeChip } from "../tree/row.js";

/** The formats that are made from a file and restore it. For others, the stored size is compared with that of all tensors. */
const RESTORED = ["zstn", "z4dm", "safetensors"];

/** The label of the original size of a model. */
const originalLabel = ({ kind }: OpenedModel): string => (RESTORED.includes(kind) ? "Original" : "Uncompressed");

/** Returns the figures of a model: its size, the number of tensors, and what packing or quantising has saved. */
export function totals(model: OpenedModel): HTMLElement {
  const { sizeBytes, tensors, fileCount, kind, figures } = model;
  const plain = kind === "safetensors";
  const isRestored = RESTORED.includes(kind);
  const originalBytes = isRestored ? model.originalBytes : figures.types.reduce((sum, type) => sum + type.originalBytes, 0);
  const ratio = originalBytes / sizeBytes;
  const saved = !isRestored ? "uncompressed to stored" : sizeBytes < originalBytes ? `${formatShare(1 - sizeBytes / originalBytes)} saved` : "no savings";
  return element(
    "dl",
    { class: "figures" },
    entry(fileCount === 1 ? "File" : `${formatCount(fileCount)} files`, formatBytes(sizeBytes), KINDS[kind] ?? kind),
    // The size of a plain file is that of its tensors.
    ...(plain ? [] : [entry(originalLabel(model), formatBytes(originalBytes), isRestored ? "when restored" : "all tensors"), entry("Ratio", formatRatio(ratio), saved)]),
    entry("Tensors", formatCount(tensors.size), tiedNote(model, plain)),
  );
}

const KINDS: Readonly<Record<string, string>> = {
  zstn: "packed, lossless",
  safetensors: "safetensors",
  z4dm: "delta from a base",
  ztensor: "zTensor",
  gauss: "Gauss, lossy",
  gguf: "GGUF",
  npy: "NumPy array",
  onnx: "ONNX",
  msgpack: "msgpack",
  tflite: "TensorFlow Lite",
  npz: "NumPy archive",
  pytorch: "PyTorch",
  hdf5: "HDF5",
  keras: "Keras",
  tar: "tar archive of PyTorch files",
  "compressed-tensors": "compressed-tensors",
};

function entry(label: string, value: string, note: string): HTMLElement {
  return element("div", { class: "figure" }, element("dt", {}, label), element("dd", {}, value), element("dd", { class: "note" }, note));
}

function tiedNote({ tensors, figures }: OpenedModel, isPlain: boolean): string {
  const tied = figures.tied.tensors;
  // A plain file may contain the same weights twice.
  if (tensors.size === 0) return "only metadata";
  if (tied === 0) return isPlain ? "none marked as tied" : "no tied weights";
  return `${formatCount(tied)} tied`;
}

/** Returns a table of the original and the stored size of the tensors of each dtype or type of quantised blocks; `undefined` if there are no tensors. */
export function byDtype(model: OpenedModel): HTMLElement | undefined {
  const { types } = model.figures;
  if (types.length === 0) return undefined;
  const most = Math.max(1, ...types.map(({ originalBytes }) => originalBytes));
  const head = element("tr", {}, ...["Dtype", "Tensors", originalLabel(model), "Stored", "Bits per weight"].map((label) => element("th", { scope: "col" }, label)));
  const rows = types.map((sum) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, dtypeChip(sum.type)),
      element("td", {}, formatCount(sum.tensors)),
      element("td", {}, formatBytes(sum.originalBytes)),
      element("td", {}, twoBars(sum.type, sum.originalBytes / most, sum.storedBytes / most), formatBytes(sum.storedBytes)),
      element("td", {}, sum.values > 0 ? ((8 * sum.storedBytes) / sum.values).toFixed(2) : "–"),
    ),
  );
  const table = element("table", { class: "table by-dtype" }, element("thead", {}, head), element("tbody", {}, ...rows));
  return element("section", { class: "card" }, element("h2", {}, "By dtype"), element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Sizes by dtype" }, table));
}

/** Returns a bar: the pale part is the original size, the full part the stored size. */
function twoBars(dtype: string, original: number, stored: number): HTMLElement {
  const fill = element("i");
  fill.style.width = `${(100 * stored) / Math.max(original, 1e-9)}%`;
  const bar = element("span", { class: `bar ${dtypeFamily(dtype)}`, "aria-hidden": "true" }, fill);
  bar.style.width = `${Math.max(2, 56 * original)}px`;
  return bar;
}
