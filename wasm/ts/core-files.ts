/**
 * The part of this package that works with the WebAssembly cores for reading, and code that plain files rarely need. It
 * is loaded when the first packed file is opened.
 */

export { assemble } from "./build-model.js";
export { isPacked, openCoreFiles, sourceOfShard } from "./catalog.js";
export { describe } from "./core-description.js";
export { checkAttached } from "./delta/attach.js";
export { decodingOf } from "./decode/choose-decoder.js";
export { loadCore, loadFormats, loadGpuModule, preload } from "./core-loaders.js";
export { missingTensor } from "./missing-tensor.js";
export { planOf } from "./read-plan.js";
export { RowPlanner } from "./row-planner.js";
