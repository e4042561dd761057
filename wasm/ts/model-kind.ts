/** The formats of models. */

/** The format of a model. `"z4dm"` is a delta; `"compressed-tensors"` has weights in parts that `config.json` describes. */
export type ModelKind = "zstn" | "safetensors" | "ztensor" | "gauss" | "z4dm" | "compressed-tensors";
