/**
 * The names of shard indices (docs/formats/sharded.md 4). `tests/names.json` has the examples that the tests of all
 * languages run.
 */

/** The extensions of files that an index may name. */
export const INDEXED = ["zstn", "safetensors", "zt", "gauss", "z4dm"];

/** Matches the name of an index. A variant such as `fp16`, which has no dot, may come before or after the word `index`. */
const NAME = new RegExp(`^(.*[^/])\\.(${INDEXED.join("|")})(\\.index(?:\\.[^./]+)?|\\.[^./]+\\.index)\\.json$`);

export interface IndexName {
  /** The name up to the extension of the shards. */
  readonly stem: string;
  /** The extension of the shards. */
  readonly extension: string;
  /** True if the name has a variant, such as `fp16`, before or after the word `index`. */
  readonly hasVariant: boolean;
}

/** Returns the parts of the name or path of an index; `undefined` for any other file name. */
export function parseIndexName(path: string): IndexName | undefined {
  const [, stem, extension, ending] = NAME.exec(path) ?? [];
  if (stem === undefined || extension === undefined) return undefined;
  return { stem, extension, hasVariant: ending !== ".index" };
}
