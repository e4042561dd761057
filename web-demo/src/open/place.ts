/** From what a person gave to what the worker opens. */

import type { Place } from "../engine/protocol.js";
import { hostOf, webOrigin } from "../page/origin.js";
import { findFiles } from "./hub.js";
import { HUGGING_FACE, nameOf, understand } from "./source-text.js";
import type { Tokens } from "./tokens.js";

/** What was given: words, or files. */
export type Given = { readonly text: string } | { readonly files: readonly File[] };

export interface Located {
  readonly place: Place;
  readonly name: string;
}

/** A repository has several files, and none that is likely the one. */
export class ChoiceNeeded extends Error {
  readonly files: readonly { path: string; address: string }[];

  constructor(repository: string, files: readonly { path: string; address: string }[]) {
    super(`The repository ${repository} has several models. Choose one of them:`);
    this.files = files;
  }
}

/** Where it is. `hub` is the address of a hub besides Hugging Face. */
export async function locate(given: Given, hub: string | undefined, tokens: Tokens, signal: AbortSignal): Promise<Located> {
  if ("files" in given) return ofFiles(given.files);
  const source = understand(given.text, hub);
  if (source.kind === "address") {
    // The worker's own address is another one than the page's.
    const address = URL.canParse(source.address, document.baseURI) ? new URL(source.address, document.baseURI).href : source.address;
    return { place: { address }, name: nameOf(source.address) };
  }
  const found = await findFiles(source, tokens, signal);
  if ("files" in found) throw new ChoiceNeeded(source.repository, found.files);
  // A link may name any hub; nobody should take it for the usual one.
  const elsewhere = source.hub === HUGGING_FACE ? "" : `, at ${hostOf(webOrigin(source.hub)!)}`;
  return { place: { address: found.address }, name: `${source.repository} · ${nameOf(found.address)}${elsewhere}` };
}

/** Of several files the index is opened, or the first that is a model. */
function ofFiles(files: readonly File[]): Located {
  const index = files.find(({ name }) => name.endsWith(".index.json"));
  const file = index ?? files.find(({ name }) => !name.endsWith(".json")) ?? files[0]!;
  return { place: { file, beside: files.filter((other) => other !== file) }, name: file.name };
}
