/** The configuration of a model: `config.json`, or the metadata of GGUF files. */

import type { Quantisation } from "./packed-weights.js";

/** The figures that a configuration states. Figures that it does not state as a positive integer are absent. */
export interface ModelConfig {
  /** The place of the configuration, such as `config.json`. */
  readonly place: string;
  readonly architecture?: string | undefined;
  readonly layers?: number | undefined;
  readonly width?: number | undefined;
  readonly heads?: number | undefined;
  readonly keyValueHeads?: number | undefined;
  readonly headWidth?: number | undefined;
  readonly activeExperts?: number | undefined;
  readonly quantisation?: Quantisation | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** The keys with the configuration of the language model in a model that also has other parts. */
const NESTED = ["text_config", "llm_config", "language_config"];

/** Parses the text of a `config.json`; `undefined` if it is not a JSON object. */
export function parseConfig(text: string, place: string): ModelConfig | undefined {
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isFields(root)) return undefined;
  const nested = NESTED.map((key) => root[key]).find(isFields);
  const fields = nested ? { ...root, ...nested } : root;
  const number = (...keys: string[]): number | undefined => keys.map((key) => positive(fields[key])).find((value) => value !== undefined);
  const { architectures, quantization } = root;
  const [bits, groupSize] = isFields(quantization) ? [positive(quantization["bits"]), positive(quantization["group_size"])] : [];
  return {
    place,
    architecture: Array.isArray(architectures) && typeof architectures[0] === "string" ? architectures[0] : undefined,
    layers: number("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    width: number("hidden_size", "n_embd", "d_model", "dim"),
    heads: number("num_attention_heads", "n_head", "num_heads", "n_heads"),
    keyValueHeads: number("num_key_value_heads", "n_kv_heads"),
    headWidth: number("head_dim", "d_kv"),
    activeExperts: number("num_experts_per_tok"),
    quantisation: bits !== undefined && groupSize !== undefined ? { bits, groupSize } : undefined,
  };
}

/** Returns the configuration in the metadata of a file: of GGUF, or the text of a `config.json` below the key `config`. */
export function configInMetadata(metadata: Readonly<Record<string, string>>): ModelConfig | undefined {
  const architecture = metadata["general.architecture"];
  if (architecture === undefined) return metadata["config"] === undefined ? undefined : parseConfig(metadata["config"], "the metadata");
  const number = (key: string): number | undefined => positive(Number(metadata[`${architecture}.${key}`] ?? Number.NaN));
  return {
    place: "the metadata",
    architecture,
    layers: number("block_count"),
    width: number("embedding_length"),
    heads: number("attention.head_count"),
    keyValueHeads: number("attention.head_count_kv"),
    headWidth: number("attention.key_length"),
    activeExperts: number("expert_used_count"),
  };
}

const positive = (value: unknown): number | undefined => (typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined);
