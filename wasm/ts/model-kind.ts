/** The formats of models. */

/**
 * The format of a model. `"z4dm"` is a delta. `"compressed-tensors"` is a model whose `config.json` describes weights
 * that are stored in several parts.
 */
export type ModelKind = "zstn" | "safetensors" | "ztensor" | "gauss" | "gguf" | "npy" | "npz" | "pytorch" | "onnx" | "msgpack" | "tflite" | "hdf5" | "keras" | "tar" | "z4dm" | "compressed-tensors";
