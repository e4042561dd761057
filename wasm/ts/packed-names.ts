/** The names of files that were packed from other formats than safetensors. Only the module with all formats reads them. */

const ENDINGS = /\.(bin|ckpt|gauss|gguf|h5|hdf5|keras|msgpack|nemo|np[yz]|onnx|pth?|tflite|zt)\.zstn$/i;

/** Returns whether a packed file of this name restores a file of another format than safetensors. */
export const isOfOtherFormat = (name: string): boolean => ENDINGS.test(name);
