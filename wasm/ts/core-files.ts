/**
 * The part of this package that reads packed files, and code that plain files rarely need. It is loaded when the first
 * packed file is opened.
 */

export { loadGpuModule, preload } from "./core-loaders.js";
export { decodingOf } from "./decode/choose-decoder.js";
export { missingTensor } from "./missing-tensor.js";
export { assemble, attached, isPacked, openCoreFiles, readConfig, sourceOfShard } from "./packed-files.js";
export { planOf } from "./read-plan.js";
export { packedModel } from "./zstn/packed-model.js";
