/** Resolves sibling files: the shards next to an index, or the `config.json` next to a model. */

import type { ModelInput } from "./model-input.js";
import { platform } from "./platform.js";

/** Returns the file with the given name in the same folder; `undefined` if there is none, or if it cannot be reached. */
export type ResolveSibling = (name: string) => ModelInput | undefined;

/** Returns the function that resolves the siblings of `input`. */
export function siblingResolver(input: ModelInput, siblings: ResolveSibling | undefined): ResolveSibling {
  if (siblings) return siblings;
  if (typeof input !== "string" && !(input instanceof URL)) return () => undefined;
  return (name) => {
    const resolved = platform.resolve(input);
    if (!(resolved instanceof URL)) return platform.siblingPath?.(input, name);
    if (!/^https?:$/.test(resolved.protocol)) return undefined;
    const url = new URL(name.split("/").map(encodeURIComponent).join("/"), resolved);
    // The query is kept: hubs add "?download=true", and some servers need an access key.
    url.search = resolved.search;
    return url;
  };
}
