/** Weights that are packed in integers: how many values they hold, as far as names and shapes prove it. */

import type { TensorInfo } from "zstn";

export interface PackedWeights {
  /** The number of values in each tensor of packed weights; `undefined` if names and shapes do not prove it. */
  readonly values: ReadonlyMap<string, number | undefined>;
  /** The tensors that hold scales, zero points and tables of quantised weights, which are not parameters. */
  readonly figures: ReadonlySet<string>;
}

/** The width of quantised values, in bits, as a configuration states it; `groupSize` is the number of values with a common scale. */
export interface Quantisation {
  readonly bits: number;
  readonly groupSize: number;
}

/** Longer names are not matched with the pattern, which could take long for names made to that end. */
const MAX_NAME_CHARS = 512;

type Find = (name: string) => TensorInfo | undefined;

/** Matches the name of a tensor of scales, zero points or tables; the first group is the name of its weight or module. */
const FIGURE = /^(.+?)[._](scales?|qzeros|g_idx|SCB|weight_format|weight_scale(?:_inv|_2)?|input_scale|scale_inv|absmax|quant_map|nested_absmax|nested_quant_map|quant_state\.[\w.]+|biases)$/;

/** Finds the packed weights of a model, in the layouts of GPTQ, AWQ, bitsandbytes, MLX, MXFP4 and NVFP4. */
export function packedWeights(tensors: readonly TensorInfo[], quantisation: Quantisation | undefined): PackedWeights {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const find: Find = (name) => byName.get(name);
  const quantisedStems = new Set<string>();
  const figureStems = new Map<string, string>();
  for (const { name } of tensors) {
    const stem = name.length > MAX_NAME_CHARS ? undefined : FIGURE.exec(name)?.[1];
    if (stem === undefined) continue;
    figureStems.set(name, stem);
    quantisedStems.add(stem);
  }
  const values = new Map<string, number | undefined>();
  for (const tensor of tensors) {
    if (!/^[IU](8|16|32|64)$/.test(tensor.dtype) || tensor.shape.length < 2 || figureStems.has(tensor.name)) continue;
    const { name, dtype } = tensor;
    const stem = name.replace(/[._](q?weight|blocks)$/, "");
    const isQuantised = quantisedStems.has(stem) || quantisedStems.has(name);
    // Integers of 8 bits without a scale are values; longer ones are positions and other indices.
    if (!isQuantised) {
      if (/^[IU]8$/.test(dtype)) values.set(name, countOf(tensor));
      continue;
    }
    values.set(name, valuesIn(tensor, stem, find, quantisation));
  }
  const isWeight = (name: string): boolean => values.has(name) || /^F[48]/.test(find(name)?.dtype ?? "");
  const figures = [...figureStems].flatMap(([name, stem]) => ([stem, `${stem}.weight`, `${stem}.qweight`, `${stem}_blocks`].some(isWeight) ? [name] : []));
  return { values, figures: new Set(figures) };
}

const countOf = ({ shape }: TensorInfo): number => shape.reduce((product, size) => product * size, 1);

/** Returns the number of values in a packed tensor. */
function valuesIn(tensor: TensorInfo, stem: string, find: Find, quantisation: Quantisation | undefined): number | undefined {
  const { name, dtype, shape } = tensor;
  const count = countOf(tensor);
  const sibling = (suffix: string): readonly number[] | undefined => find(`${stem}${suffix}`)?.shape;
  const scales = sibling(".scales");
  if (name.endsWith(".qweight")) return dtype === "I32" && shape.length === 2 && scales ? inWords(shape, scales, sibling(".qzeros")) : undefined;
  if (name.endsWith("_blocks")) {
    // MXFP4: blocks of 32 values in 16 bytes, each with a scale.
    const ofBlocks = sibling("_scales");
    return dtype === "U8" && shape.at(-1) === 16 && ofBlocks?.join() === shape.slice(0, -1).join() ? 2 * count : undefined;
  }
  if (dtype === "U8" && (find(`${name}.quant_state.bitsandbytes__nf4`) || find(`${name}.quant_state.bitsandbytes__fp4`))) return 2 * count;
  if (dtype === "I8" && sibling(".SCB")) return count;
  const ofGroups = find(`${stem}.weight_scale`);
  // NVFP4: two values in a byte, and a scale for 16 values.
  if (dtype === "U8" && ofGroups?.dtype === "F8_E4M3" && find(`${stem}.weight_scale_2`) && 8 * ofGroups.shape.at(-1)! === shape.at(-1)) return 2 * count;
  if (dtype === "U32" && scales && sibling(".biases")?.join() === scales.join() && quantisation) {
    const columns = (shape.at(-1)! * 32) / quantisation.bits;
    return columns === scales.at(-1)! * quantisation.groupSize ? (count / shape.at(-1)!) * columns : undefined;
  }
  return undefined;
}

/**
 * Returns the number of values in 32-bit words. GPTQ packs columns of the transposed weight, so that its words have one
 * column per output, as its scales do; AWQ packs rows.
 */
function inWords([rows, columns]: readonly number[], scales: readonly number[], zeros: readonly number[] | undefined): number | undefined {
  const outputs = scales[1];
  if (rows === undefined || columns === undefined || outputs === undefined || zeros?.length !== 2) return undefined;
  const bits = (32 * zeros[1]!) / outputs;
  if (![2, 3, 4, 8].includes(bits)) return undefined;
  const values = columns === outputs ? (rows * 32 * columns) / bits : columns === zeros[1] ? rows * outputs : Number.NaN;
  return Number.isInteger(values) ? values : undefined;
}
