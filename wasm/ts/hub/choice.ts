/** Choosing the file of a repository that is its model, by the rules that the Rust library has for folders. */

import { EXTENSIONS, parseIndexName } from "./index-name.js";

/** The names that a model has in its own folder, without extensions. */
const STEMS = ["model", "diffusion_pytorch_model"];

const SHARD = /-\d{5}-of-\d{5}\.[^./]+$/;

/** Returns whether `open` reads a file of that name by itself or as an index. */
export const isModelFile = (path: string): boolean => EXTENSIONS.includes(extensionOf(path));

/** Returns the one file to open; several to choose from if none is the obvious one; none if nothing can be opened. */
export function chooseFiles(paths: readonly string[], folder = ""): readonly string[] {
  const inside = paths.filter((path) => path.startsWith(folder) && isModelFile(path));
  const top = inside.filter((path) => !path.slice(folder.length).includes("/"));
  if (top.length > 0) return chooseAmong(top, folder);
  return inside.filter((path) => !SHARD.test(path) || !hasIndex(path, inside));
}

function chooseAmong(paths: readonly string[], folder: string): readonly string[] {
  for (const wantsIndex of [true, false]) {
    for (const extension of EXTENSIONS) {
      const ending = wantsIndex ? `.${extension}.index.json` : `.${extension}`;
      const isWanted = (path: string): boolean => (wantsIndex ? parseIndexName(path)?.extension === extension : path.endsWith(ending)) && !SHARD.test(path);
      const all = paths.filter(isWanted);
      // An index without a variant next to the word is preferred.
      const plain = wantsIndex ? all.filter((path) => path.endsWith(ending)) : all;
      const found = plain.length > 0 ? plain : all;
      const named = STEMS.map((stem) => `${folder}${stem}${ending}`).find((path) => found.includes(path));
      if (named !== undefined) return [named];
      if (found.length === 1) return found;
      if (found.length > 1) return paths.filter((path) => !SHARD.test(path));
    }
  }
  return paths;
}

/** Returns whether an index in the same folder may name that shard. */
function hasIndex(shard: string, paths: readonly string[]): boolean {
  const stem = shard.slice(0, shard.search(SHARD));
  return paths.some((path) => path.startsWith(stem) && parseIndexName(path) !== undefined);
}

/** Returns the extension of a file, or that of the shards of an index. */
function extensionOf(path: string): string {
  return parseIndexName(path)?.extension ?? /\.([^./]+)$/.exec(path)?.[1]!.toLowerCase() ?? "";
}
