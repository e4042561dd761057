/** Weights in the MX formats and NVFP4: short floats in one tensor, and the scales of their blocks in others. */

import { toFloat32 } from "./dtype.js";
import type { Dtype, TensorData } from "./dtype.js";
import { InvalidInputError } from "./errors.js";
import { checkOptions, type OptionNames } from "./known-options.js";
import type { Model } from "./model.js";
import type { Tensor, TensorInfo } from "./tensor.js";
import { PLAN_OPTIONS, type TensorOptions } from "./tensor-options.js";

/** A weight whose values are elements times the scales of their blocks. */
export interface BlockScaled {
  /** `"MXFP4"`, `"MXFP6"` and `"MXFP8"` are OCP microscaling formats; `"NVFP4"` has blocks of 16 and a second scale. */
  readonly format: "MXFP4" | "MXFP6" | "MXFP8" | "NVFP4";
  /** The dimensions of the decoded weight, outermost first. */
  readonly shape: readonly number[];
  /** The number of neighbouring values in the last dimension that share a scale. */
  readonly blockLength: number;
  /** The name of the tensor with the elements, which may be packed in bytes. */
  readonly elements: string;
  /** The type of an element. */
  readonly elementType: "F4" | "F6_E2M3" | "F6_E3M2" | "F8_E4M3" | "F8_E5M2";
  /** The name of the tensor with the scales of the blocks. */
  readonly scales: string;
  /** The type of a scale. */
  readonly scaleType: "F8_E8M0" | "F8_E4M3";
  /** The scale of the scales, if there is one. */
  readonly global?: {
    /** The name of its tensor, which has one element. */
    readonly name: string;
    /** Whether the scales of the blocks are divided by it. Otherwise they are multiplied by it. */
    readonly divides: boolean;
  };
}

/** Options of `readBlockScaled`. */
export type BlockScaledOptions = Pick<TensorOptions, "rows" | "signal">;

const OPTIONS: OptionNames<BlockScaledOptions> = PLAN_OPTIONS;
const MX_BLOCK = 32;
const NVFP4_BLOCK = 16;

/** The tensors that belong to elements, by the conventions of the programs that write them. */
interface Names {
  scales: string;
  global?: string;
  divides: boolean;
}

function namesOf(elements: string): Names[] {
  const packed = elements.endsWith("_packed") ? elements.slice(0, -"_packed".length) : undefined;
  return [
    // GPT-OSS
    ...(/[._]blocks$/.test(elements) ? [{ scales: elements.replace(/blocks$/, "scales"), divides: false }] : []),
    // compressed-tensors
    ...(packed === undefined ? [] : [{ scales: `${packed}_scale`, global: `${packed}_global_scale`, divides: true }]),
    // NVIDIA ModelOpt, AMD Quark
    { scales: `${elements}_scale`, global: `${elements}_scale_2`, divides: false },
  ];
}

/**
 * Returns the description of the weight whose elements are in the tensor `name`; `undefined` if there are no scales that
 * fit it. The scales are found by their names and shapes: `*_blocks` and `*_scales` as in GPT-OSS, `*.weight_packed` with
 * `*.weight_scale` and `*.weight_global_scale` as in compressed-tensors, and `*.weight` with `*.weight_scale` and
 * `*.weight_scale_2` as ModelOpt writes them.
 */
export function blockScaled(tensors: ReadonlyMap<string, TensorInfo>, name: string): BlockScaled | undefined {
  const elements = tensors.get(name);
  if (!elements) return undefined;
  for (const names of namesOf(name)) {
    const scales = tensors.get(names.scales);
    const found = scales && match(elements, scales, names.global === undefined ? undefined : tensors.get(names.global), names.divides);
    if (found) return found;
  }
  return undefined;
}

function match(elements: TensorInfo, scales: TensorInfo, global: TensorInfo | undefined, divides: boolean): BlockScaled | undefined {
  const blocks = scales.shape.at(-1);
  // Packed blocks have a dimension of their own.
  const isSplit = elements.shape.length === scales.shape.length + 1;
  const outer = elements.shape.slice(0, isSplit ? -2 : -1);
  if (!blocks || outer.length === 0 || outer.length !== scales.shape.length - 1 || outer.some((size, i) => size !== scales.shape[i])) return undefined;
  if (isSplit && elements.shape.at(-2) !== blocks) return undefined;
  const blockElements = (elements.shape.at(-1) ?? 0) / (isSplit ? 1 : blocks);
  const isNvidia = scales.dtype === "F8_E4M3";
  if (!isNvidia && scales.dtype !== "U8" && scales.dtype !== "F8_E8M0") return undefined;
  const blockLength = isNvidia ? NVFP4_BLOCK : MX_BLOCK;
  const elementType = typeOf(elements.dtype, blockElements, blockLength);
  if (!elementType) return undefined;
  const bits = Number(elementType[1]);
  if (isNvidia ? bits !== 4 || !isGlobal(global, outer) : global) return undefined;
  return {
    format: isNvidia ? "NVFP4" : `MXFP${bits as 4 | 6 | 8}`,
    shape: [...outer, blocks * blockLength],
    blockLength,
    elements: elements.name,
    elementType,
    scales: scales.name,
    scaleType: isNvidia ? "F8_E4M3" : "F8_E8M0",
    ...(isNvidia && { global: { name: global!.name, divides } }),
  };
}

/** Returns the type of `blockLength` elements that take `stored` elements of a tensor; `undefined` if they do not fit. */
function typeOf(dtype: Dtype, stored: number, blockLength: number): BlockScaled["elementType"] | undefined {
  // In bytes, two elements of 4 bits share one, and four elements of 6 bits share three.
  if (dtype === "U8") return stored * 2 === blockLength ? "F4" : stored * 4 === blockLength * 3 ? "F6_E2M3" : undefined;
  const isElement = dtype === "F4" || dtype === "F6_E2M3" || dtype === "F6_E3M2" || dtype === "F8_E4M3" || dtype === "F8_E5M2";
  return isElement && stored === blockLength ? dtype : undefined;
}

/** Returns whether a tensor is one scale for a weight, or one for each matrix of a stack. */
function isGlobal(global: TensorInfo | undefined, outer: readonly number[]): boolean {
  if (global?.dtype !== "F32") return false;
  const count = global.shape.reduce((product, size) => product * size, 1);
  return count === 1 || (outer.length > 1 && global.shape.length === 1 && count === outer[0]);
}

/**
 * Reads a weight that `blockScaled` described, or rows of it, and decodes it to 32-bit floats. Values of MX formats are
 * exact, unless they are too large or too small for a 32-bit float; values of NVFP4 are rounded twice, as scale and
 * product. A scale of 255 is NaN. Rejects like `model.tensor`.
 */
export async function readBlockScaled(model: Pick<Model, "tensor">, weight: BlockScaled, options: BlockScaledOptions = {}): Promise<Float32Array<ArrayBuffer>> {
  checkOptions("readBlockScaled()", options, OPTIONS);
  const { elements, elementType, scales, scaleType, global, blockLength, shape } = weight;
  const { rows, signal } = options;
  const common = signal ? { signal } : {};
  const own = rows ? { ...common, rows } : common;
  const [codes, ofBlocks, ofAll] = await Promise.all([model.tensor(elements, own), model.tensor(scales, own), global && model.tensor(global.name, common)]);
  const rowLength = shape.slice(1).reduce((product, size) => product * size, 1);
  const count = (rows ? rows[1] - rows[0] : shape[0] ?? 1) * rowLength;
  const values = floats(codes, elementType, count);
  const factors = floats(ofBlocks, scaleType, count / blockLength);
  const globals = ofAll && floats(ofAll, "F32", ofAll.data.length);
  const firstRow = rows?.[0] ?? 0;
  for (let block = 0, at = 0; block < factors.length; block++) {
    let factor = factors[block]!;
    if (globals) {
      const second = globals[globals.length === 1 ? 0 : firstRow + Math.floor(at / rowLength)]!;
      factor = Math.fround(global!.divides ? factor / second : factor * second);
    }
    for (const end = at + blockLength; at < end; at++) values[at]! *= factor;
  }
  return values;
}

/** Returns the elements of a tensor, which are of type `type` even if the tensor is one of bytes. */
function floats({ name, bytes, data }: Tensor, type: Dtype, count: number): Float32Array<ArrayBuffer> {
  const bits = type === "F32" ? 32 : Number(type[1]);
  if (bytes.byteLength * 8 !== count * bits) {
    throw new InvalidInputError(`${name} has ${bytes.byteLength} bytes, not ${count} elements of ${type}. Call blockScaled() with the tensors of this model.`);
  }
  const from: TensorData = type === "F32" ? data : bytes;
  return toFloat32(type, name, from, 0, count);
}
