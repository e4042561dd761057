/** Resolving the user's input to a source that the worker can open. */

import type { ModelSource } from "../engine/protocol.js";
import { hostOf, webOrigin } from "../page/origin.js";
import { findFiles } from "./hub.js";
import { HUGGING_FACE, nameOf, parseInput } from "./parse-input.js";
import type { Tokens } from "./tokens.js";

/** The user's input: text or files. */
export type UserInput = { readonly text: string } | { readonly files: readonly File[] };

export interface ResolvedInput {
  readonly source: ModelSource;
  readonly name: string;
}

/** A repository has several models, and none is an obvious choice. */
export class ChoiceNeeded extends Error {
  readonly files: readonly { path: string; address: string }[];

  constructor(repository: string, files: readonly { path: string; address: string }[]) {
    super(`The repository ${repository} has several models. Choose one of them:`);
    this.files = files;
  }
}

/** Resolves the input. `hub` is the URL of a hub besides Hugging Face. */
export async function resolveInput(input: UserInput, hub: string | undefined, tokens: Tokens, signal: AbortSignal): Promise<ResolvedInput> {
  if ("files" in input) return ofFiles(input.files);
  const source = parseInput(input.text, hub);
  if (source.kind === "address") {
    // The worker would resolve a relative URL against its own.
    const address = URL.canParse(source.address, document.baseURI) ? new URL(source.address, document.baseURI).href : source.address;
    return { source: { address }, name: nameOf(source.address) };
  }
  const found = await findFiles(source, tokens, signal);
  if ("files" in found) throw new ChoiceNeeded(source.repository, found.files);
  // A link may name any hub, which must not be mistaken for Hugging Face.
  const elsewhere = source.hub === HUGGING_FACE ? "" : `, at ${hostOf(webOrigin(source.hub)!)}`;
  return { source: { address: found.address }, name: `${source.repository} · ${nameOf(found.address)}${elsewhere}` };
}

/** Picks the index of several files, or the first that is a model. */
function ofFiles(files: readonly File[]): ResolvedInput {
  const index = files.find(({ name }) => name.endsWith(".index.json"));
  const file = index ?? files.find(({ name }) => !name.endsWith(".json")) ?? files[0]!;
  return { source: { file, siblings: files.filter((other) => other !== file) }, name: file.name };
}
