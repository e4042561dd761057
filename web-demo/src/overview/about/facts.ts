/** The facts about a model that its overview begins with. Each is proven by names and shapes, or stated by the configuration. */

import type { TensorInfo } from "zstn";
import { formatCount, formatMagnitude, plural } from "../../page/format.js";
import { typeOf } from "../../tree/dtype-family.js";
import { originalBytesOf } from "../../tree/node.js";
import { stacksOf } from "../layers/stacks.js";
import { configInMetadata } from "./config.js";
import type { ModelConfig } from "./config.js";
import { countParameters } from "./parameters.js";
import type { ParameterCount } from "./parameters.js";
import { adapterIn, embeddingOf, expertsIn, headsIn, keyValueHeads, layersIn, projections } from "./shapes.js";
import type { Layers } from "./shapes.js";

export interface Fact {
  readonly key: "kind" | "shard" | "parameters" | "layers" | "width" | "heads" | "vocabulary" | "experts";
  /** The figure, such as "32", and the words before and after it. */
  readonly figure: string;
  readonly before?: string;
  readonly after?: string;
  /** The exact number, if `figure` is rounded. */
  readonly exact?: string;
  /** How the fact is known. */
  readonly source: string;
}

export interface Facts {
  readonly facts: readonly Fact[];
  /** The dtypes and types of quantised blocks, by the bytes that they take, largest first. */
  readonly types: readonly string[];
  /** Sentences about what is left out. */
  readonly notes: readonly string[];
  /** True if a configuration could add a fact that shapes do not prove. */
  readonly needsConfig: boolean;
}

/** The members of a model from which facts are derived. */
export interface Described {
  readonly name: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly fileCount: number;
  readonly tensors: readonly TensorInfo[];
}

/** The maximum number of stacks whose layers are listed. */
const MAX_STACKS = 4;

/** Returns the facts about a model. `file` is the `config.json` next to it. */
export function factsOf(model: Described, file?: ModelConfig): Facts {
  const { tensors, metadata } = model;
  const embedding = embeddingOf(tensors);
  const stacks = layersIn(stacksOf(tensors).stacks, embedding?.shape[1]);
  // The text encoder in the checkpoint of an image model does not describe that model.
  const layers = areMost(stacks, tensors, embedding?.shape[0]) ? stacks : [];
  const shard = shardOf(model);
  const notes: string[] = [];
  const stated = [configInMetadata(metadata), file].filter((config) => config !== undefined);
  const config = stated.find((one) => describes(one, layers, shard !== undefined));
  if (file && config !== file && !config) notes.push(`${file.place} is not used, because its layers or their width differ from those in the file.`);
  // The width of packed values is used only if it agrees with the shapes of the weights and of their scales.
  const parameters = countParameters(tensors, config?.quantisation ?? file?.quantisation);
  const facts: Fact[] = [];
  const add = (fact: Fact | undefined): void => void (fact && facts.push(fact));
  const adapter = adapterIn(tensors);
  if (adapter) {
    const { leastRank, mostRank, modules } = adapter;
    add({ key: "kind", figure: "LoRA adapter", after: `of rank ${leastRank === mostRank ? leastRank : `${leastRank} to ${mostRank}`} for ${plural(modules, "module")}`, source: "The rank is the number of rows of each first matrix." });
  } else if (config?.architecture !== undefined) add({ key: "kind", figure: config.architecture, source: `Stated by ${config.place}.` });
  if (shard !== undefined) add({ key: "shard", before: "file", figure: shard, source: "By its name, the model has more files. All figures are those of this file." });
  add(parametersFact(parameters));
  if (layers.length > 0 && layers.length <= MAX_STACKS) {
    add(layersFact(layers, adapter !== undefined));
    add(widthFact(layers));
    add(headsFact(layers, config));
  }
  if (embedding && !adapter && layers.length === stacks.length) add({ key: "vocabulary", before: "vocabulary", figure: formatCount(embedding.shape[0]!), source: `The rows of ${embedding.name}.` });
  add(expertsFact(layers, config));
  const known = new Set(facts.map(({ key }) => key));
  const needsConfig = !adapter && !config && (parameters.unknown.length > 0 || (layers.length > 0 && (!known.has("heads") || !known.has("kind"))));
  return { facts, types: typesOf(model), notes: [...notes, ...notesOf(parameters)], needsConfig };
}

/** Returns whether the layers have at least half of the bytes of a model, apart from matrices with a row for each word of the vocabulary. */
function areMost(layers: readonly Layers[], tensors: readonly TensorInfo[], vocabulary: number | undefined): boolean {
  const bytesOf = (some: readonly TensorInfo[]): number => some.reduce((sum, tensor) => sum + originalBytesOf(tensor), 0);
  const inLayers = layers.reduce((sum, { stack }) => stack.rows.reduce((all, { cells }) => cells.reduce((bytes, cell) => bytes + bytesOf(cell ?? []), all), sum), 0);
  return 2 * inLayers >= bytesOf(tensors.filter(({ shape }) => shape.length !== 2 || shape[0] !== vocabulary));
}

/** Returns whether a configuration agrees with the shapes: a folder may contain the configuration of another model. */
function describes({ width, layers: count }: ModelConfig, layers: readonly Layers[], isShard: boolean): boolean {
  return layers.some((one) => one.width !== undefined && one.width === width && (count === undefined || count === one.count || (isShard && count > one.count)));
}

/** Returns "2 of 4" for a file that is opened without the other files of the model. */
function shardOf({ name, fileCount }: Described): string | undefined {
  const [, number, count] = /-(\d{5})-of-(\d{5})\b/.exec(name) ?? [];
  return count === undefined || fileCount !== 1 || Number(count) < 2 ? undefined : `${Number(number)} of ${Number(count)}`;
}

function parametersFact({ count, figures }: ParameterCount): Fact | undefined {
  if (count === undefined || count === 0) return undefined;
  const figure = formatMagnitude(count);
  const exact = formatCount(count);
  return { key: "parameters", figure, after: count === 1 ? "parameter" : "parameters", ...(exact !== figure && { exact }), source: figures > 0 ? "The sum over the shapes of all weights; packed weights count as the values that they represent." : "The sum over all shapes." };
}

function layersFact(layers: readonly Layers[], isAdapter: boolean): Fact {
  const counts = layers.map(({ count }) => formatCount(count));
  const predictors = layers.reduce((sum, one) => sum + one.predictors, 0);
  const isOne = layers.length === 1 && layers[0]!.count === 1;
  const where = layers.map(({ stack, isWhole }) => `${stack.prefix}.${stack.rows[0]!.layer} to ${stack.rows.at(-1)!.layer}${isWhole ? "" : ", not all of them"}`);
  return { key: "layers", ...(isAdapter && { before: "in" }), figure: counts.join(" + "), after: `layer${isOne ? "" : "s"}${predictors > 0 ? `, ${formatCount(predictors)} more for further tokens` : ""}${layers.length > 1 ? ` (${namesOf(layers).join(", ")})` : ""}`, source: `${where.join("; ")}.` };
}

/** Returns the first component of each prefix in which the stacks differ, such as "encoder" and "decoder". */
function namesOf(layers: readonly Layers[]): string[] {
  const parts = layers.map(({ stack }) => stack.prefix.split("."));
  const at = parts[0]!.findIndex((part, i) => parts.some((other) => other[i] !== part));
  return parts.map((own) => own[Math.max(0, at)] ?? own.at(-1)!);
}

function widthFact(layers: readonly Layers[]): Fact | undefined {
  const widths = layers.map(({ width }) => width);
  if (widths.some((width) => width === undefined)) return undefined;
  const isCommon = widths.every((width) => width === widths[0]);
  return { key: "width", figure: (isCommon ? widths.slice(0, 1) : widths).map((width) => formatCount(width!)).join(" + "), after: "wide", source: "The length of the normalisation weights of the layers." };
}

/** Returns the number of heads, if the layers of all stacks have the same number. */
function headsFact(layers: readonly Layers[], config: ModelConfig | undefined): Fact | undefined {
  const all = layers.map(({ stack, width }) => {
    const proven = headsIn(stack);
    if (proven) return { ...proven, source: `By the shape of ${proven.proof}.` };
    const heads = config?.width === width ? config?.heads : undefined;
    if (heads === undefined || !config) return undefined;
    const { inner, keys } = projections(stack);
    // The stated number has to fit the shapes.
    if (inner !== undefined && (inner % heads !== 0 || (config.headWidth !== undefined && keys !== undefined && inner !== heads * config.headWidth))) return undefined;
    const keyValues = keyValueHeads(heads, inner, keys);
    if (keyValues !== undefined && config.keyValueHeads !== undefined && keyValues !== config.keyValueHeads) return undefined;
    return { heads, keyValueHeads: keyValues ?? (keys === undefined ? undefined : config.keyValueHeads), source: `Stated by ${config.place}${inner === undefined ? "" : ", in agreement with the shapes"}.` };
  });
  const [first] = all;
  if (!first || all.some((one) => one?.heads !== first.heads || one.keyValueHeads !== first.keyValueHeads)) return undefined;
  const { heads, keyValueHeads: pairs } = first;
  return { key: "heads", figure: formatCount(heads), after: `head${heads === 1 ? "" : "s"}${pairs !== undefined && pairs !== heads ? `, ${formatCount(pairs)} for keys and values` : ""}`, source: first.source };
}

function expertsFact(layers: readonly Layers[], config: ModelConfig | undefined): Fact | undefined {
  const found = layers.map(({ stack }) => expertsIn(stack)).filter((count) => count !== undefined);
  const [count] = found;
  if (count === undefined || found.some((other) => other !== count)) return undefined;
  const active = config?.activeExperts !== undefined && config.activeExperts <= count ? `, ${formatCount(config.activeExperts)} active` : "";
  return { key: "experts", figure: formatCount(count), after: `expert${count === 1 ? "" : "s"}${active}`, source: `The experts in a layer.${active === "" ? "" : ` The number of active ones is stated by ${config!.place}.`}` };
}

function notesOf({ unknown, buffers, figures, shared }: ParameterCount): string[] {
  return [
    unknown.length > 0 && `Parameters are not counted: integers are packed in unknown ways in ${plural(unknown.length, "tensor")}, such as ${unknown[0]}.`,
    shared > 0 && `${plural(shared, "tensor")} share${shared === 1 ? "s" : ""} the bytes of another one and count${shared === 1 ? "s" : ""} once.`,
    buffers.tensors > 0 && `Not counted: ${plural(buffers.values, "value")} of ${plural(buffers.tensors, "buffer")}, such as masks and positions.`,
    figures > 0 && `Not counted: ${plural(figures, "tensor")} with scales and other figures of quantised weights.`,
  ].filter((note) => note !== false);
}

function typesOf({ tensors }: Described): string[] {
  const sums = new Map<string, number>();
  for (const tensor of tensors) sums.set(typeOf(tensor), (sums.get(typeOf(tensor)) ?? 0) + originalBytesOf(tensor));
  return [...sums].sort((a, b) => b[1] - a[1]).map(([type]) => type);
}
