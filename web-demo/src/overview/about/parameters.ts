/** Counts the parameters of a model. */

import type { TensorInfo } from "zstn";
import { isBlockType, isFloat } from "../../tree/dtype-family.js";
import { packedWeights } from "./packed-weights.js";
import type { Quantisation } from "./packed-weights.js";

export interface ParameterCount {
  /** The number of parameters; `undefined` if some weights are packed in a layout that names and shapes do not prove. */
  readonly count: number | undefined;
  /** The tensors of packed weights whose number of values is unknown. */
  readonly unknown: readonly string[];
  /** Buffers, such as masks and positions, which are not parameters. */
  readonly buffers: { readonly tensors: number; readonly values: number };
  /** The number of tensors with scales and other figures of quantised weights, which are not parameters. */
  readonly figures: number;
  /** The number of tensors that share the bytes of another one, whose parameters are counted once. */
  readonly shared: number;
}

/** Matches the names of buffers that checkpoints contain together with parameters. */
const BUFFER = /(^|\.)(running_mean|running_var|num_batches_tracked|position_ids|inv_freq|masked_bias|relative_position_index|relative_coords_table|attn_mask|cos_cached|sin_cached|rope_freqs\.weight|rope_factors_(long|short)\.weight)$/;

/** Returns whether a tensor is a causal mask, such as GPT-2's `attn.bias` with the shape 1 × 1 × 1024 × 1024. */
const isMask = ({ name, shape }: TensorInfo): boolean => /(^|\.)att(n|ention)\.bias$/.test(name) && shape.length === 4 && shape[0] === 1 && shape[1] === 1 && shape[2] === shape[3];

export const valuesOf = ({ shape }: Pick<TensorInfo, "shape">): number => shape.reduce((product, size) => product * size, 1);

/** Counts parameters by values: quantised weights count as the values that they represent, and shared tensors once. */
export function countParameters(tensors: readonly TensorInfo[], quantisation?: Quantisation): ParameterCount {
  const packed = packedWeights(tensors, quantisation);
  const ranges = new Set<string>();
  const unknown: string[] = [];
  const buffers = { tensors: 0, values: 0 };
  let [count, shared] = [0, 0];
  for (const tensor of tensors) {
    if (packed.figures.has(tensor.name)) continue;
    const range = tensor.aliasOf === undefined ? rangeOf(tensor) : undefined;
    if (isTied(tensor) || (range !== undefined && ranges.has(range))) {
      shared += 1;
      continue;
    }
    if (range !== undefined) ranges.add(range);
    if (BUFFER.test(tensor.name) || isMask(tensor)) {
      buffers.tensors += 1;
      buffers.values += valuesOf(tensor);
    } else if (isFloat(tensor.dtype) || isBlockType(tensor.format) || tensor.format !== undefined) {
      count += valuesOf(tensor);
    } else if (packed.values.has(tensor.name)) {
      const values = packed.values.get(tensor.name);
      if (values === undefined) unknown.push(tensor.name);
      else count += values;
    } else {
      buffers.tensors += 1;
      buffers.values += valuesOf(tensor);
    }
  }
  return { count: unknown.length > 0 ? undefined : count, unknown, buffers, figures: packed.figures.size, shared };
}

/** An equal matrix that is stored in less than this fraction of its bytes is probably constant, and not tied. */
const CONSTANT_SHARE = 1 / 16;

/**
 * Returns whether a tensor is tied to the one whose stored bytes it shares. Packed files also store equal constants
 * once, such as the ones of new normalisations and the zeros of new adapters, which are separate parameters.
 */
function isTied({ aliasOf, shape, storedLength, byteLength }: TensorInfo): boolean {
  return aliasOf !== undefined && shape.filter((size) => size > 1).length > 1 && storedLength > CONSTANT_SHARE * byteLength;
}

/**
 * Returns a text that is equal for tensors with the same values in the same bytes; `undefined` if the tensor has only a
 * share of its stored ranges, or no bytes of its own.
 */
function rangeOf(tensor: TensorInfo): string | undefined {
  const { parts, storedLength } = tensor;
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  if (length === 0 || length !== storedLength) return undefined;
  return `${parts.map((part) => `${part.file}:${part.offset}:${part.length}`).join(" ")} ${valuesOf(tensor)}`;
}
