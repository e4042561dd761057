/** Resolves the user's input to a source that the worker can open. */

import type { Engine } from "../engine/client.js";
import type { Choice, ResolvedInput } from "../engine/protocol.js";
import type { Tokens } from "./tokens.js";

/** The user's input: text or files. */
export type UserInput = { readonly text: string } | { readonly files: readonly File[] };

/** The error for a repository that has several models and no obvious choice among them. */
export class ChoiceNeeded extends Error {
  readonly files: Choice["files"];

  constructor({ repository, files }: Choice) {
    super(`The repository ${repository} has several models. Choose one of them:`);
    this.files = files;
  }
}

/** Resolves the input. `hub` is the URL of a hub in addition to Hugging Face. */
export async function resolveInput(input: UserInput, engine: Engine, hub: string | undefined, tokens: Tokens, signal: AbortSignal): Promise<ResolvedInput> {
  if ("files" in input) return ofFiles(input.files);
  const found = await engine.call("resolve", { text: input.text, hub, page: document.baseURI, tokens: tokens.byOrigin }, { signal });
  if ("files" in found) throw new ChoiceNeeded(found);
  return found;
}

/**
 * Picks the file to open: the shard index, otherwise an ONNX model, whose values may be in the others, the first of
 * several GGUF files, or the first model file.
 */
function ofFiles(files: readonly File[]): ResolvedInput {
  const index = files.find(({ name }) => /\.index(\.[^./]+)?\.json$/.test(name));
  const file = index ?? files.find(({ name }) => /\.onnx$|-00001-of-\d{5}\.gguf(\.zstn)?$/i.test(name)) ?? files.find(({ name }) => !name.endsWith(".json")) ?? files[0]!;
  return { source: { file, siblings: files.filter((other) => other !== file) }, name: file.name };
}
