/** Chooses the model file of a repository, by the rules that the Rust library has for folders. */

import { parseIndexName } from "./index-name.js";

/**
 * The extensions of files that `open` reads, most preferred first: packed before plain. A delta comes last because it
 * needs its base.
 */
const EXTENSIONS = ["zstn", "safetensors", "zt", "gauss", "gguf", "npy", "npz", "pt", "z4dm"];

/** The extensions of other files that `open` reads. Repositories have them besides a model, so they are only chosen alone. */
const OTHERS = ["h5", "onnx", "msgpack", "tflite", "keras", "nemo"];

/** The usual names of a model in its own folder, without extensions. */
const STEMS = ["model", "diffusion_pytorch_model"];

const SHARD = /-\d{5}-of-\d{5}\.[^./]+$|_\d{5}\.weights\.h5$/;

/** Matches the number of one of several GGUF files of a model, which may be packed. */
const GGUF_NUMBER = /-\d{5}(-of-\d{5}\.gguf(?:\.zstn)?)$/;

/** Match the names of indices of PyTorch files and of Keras, which are chosen like a file of that format. */
const INDICES: readonly [extension: string, name: RegExp][] = [
  ["pt", /\.bin\.index\.json$/],
  ["h5", /\.weights\.json$/],
];

/** Returns the format of the files that an index of this name lists, if that is PyTorch or HDF5. */
const formatOfIndex = (path: string): string | undefined => INDICES.find(([, name]) => name.test(path))?.[0];

/** Returns whether `open` can read a file of this name, by itself or as an index. */
export const isModelFile = (path: string): boolean => [...EXTENSIONS, ...OTHERS].includes(extensionOf(path));

/** Returns the one file to open, several candidates if there is no obvious choice, or none if nothing can be opened. */
export function chooseFiles(paths: readonly string[], folder = ""): readonly string[] {
  const all = paths.filter((path) => path.startsWith(folder) && isModelFile(path));
  const preferred = all.filter((path) => EXTENSIONS.includes(extensionOf(path)));
  const inside = preferred.length > 0 ? preferred : all;
  const top = inside.filter((path) => !path.slice(folder.length).includes("/"));
  if (top.length > 0) return chooseAmong(top, folder);
  return inside.filter((path) => !isFurther(path, paths) && (!SHARD.test(path) || !hasIndex(path, inside)));
}

function chooseAmong(paths: readonly string[], folder: string): readonly string[] {
  for (const wantsIndex of [true, false]) {
    for (const extension of [...EXTENSIONS, ...OTHERS]) {
      const ending = wantsIndex ? `.${extension}.index.json` : `.${extension}`;
      const isWanted = (path: string): boolean => (wantsIndex ? parseIndexName(path)?.extension === extension : path.endsWith(ending) || formatOfIndex(path) === extension) && !isShard(path, paths);
      const all = paths.filter(isWanted);
      // An index whose name has no variant next to the word `index` is preferred.
      const plain = wantsIndex ? all.filter((path) => path.endsWith(ending)) : all;
      const found = plain.length > 0 ? plain : all;
      const named = STEMS.map((stem) => `${folder}${stem}${ending}`).find((path) => found.includes(path));
      if (named !== undefined) return [named];
      if (found.length === 1) return found;
      if (found.length > 1) return paths.filter((path) => !isShard(path, paths));
    }
  }
  return paths;
}

/** Returns whether a model is not opened by this file. The first of several GGUF files opens the others. */
const isShard = (path: string, paths: readonly string[]): boolean => (GGUF_NUMBER.test(path) ? isFurther(path, paths) : SHARD.test(path));

/** Returns whether `path` is one of several GGUF files, and `paths` contains the first of them. */
function isFurther(path: string, paths: readonly string[]): boolean {
  const first = path.replace(GGUF_NUMBER, "-00001$1");
  return first !== path && paths.includes(first);
}

/** Returns whether the same folder has an index that may name this shard. */
function hasIndex(shard: string, paths: readonly string[]): boolean {
  const stem = shard.slice(0, shard.search(SHARD));
  return paths.some((path) => path.startsWith(stem) && (formatOfIndex(path) ?? parseIndexName(path)) !== undefined);
}

/** Returns the extension of a file; for an index, the extension of its shards. */
function extensionOf(path: string): string {
  return formatOfIndex(path) ?? parseIndexName(path)?.extension ?? /\.([^./]+)$/.exec(path)?.[1]!.toLowerCase() ?? "";
}
