/** From what a person gave to what the worker opens. */

import type { Place } from "../engine/protocol.js";
import { findFiles } from "./hub.js";
import { DEFAULT_HUB, nameOf, understand } from "./source-text.js";

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

export async function locate(given: Given, hub: string, token: string | undefined, signal: AbortSignal): Promise<Located> {
  if ("files" in given) return ofFiles(given.files);
  const typed = understand(given.text, hub);
  if (typed.kind === "address") {
    // The worker's own address is another one than the page's.
    const address = URL.canParse(typed.address, document.baseURI) ? new URL(typed.address, document.baseURI).href : typed.address;
    return { place: { address }, name: nameOf(typed.address) };
  }
  const found = await findFiles(hub, typed, token, signal);
  if ("files" in found) throw new ChoiceNeeded(typed.repository, found.files);
  // A link may name any hub; nobody should take it for the usual one.
  const elsewhere = hub === DEFAULT_HUB ? "" : `, at ${new URL(found.address).host}`;
  return { place: { address: found.address }, name: `${typed.repository} · ${nameOf(found.address)}${elsewhere}` };
}

/** Of several files the index is opened, or the first that is a model. */
function ofFiles(files: readonly File[]): Located {
  const index = files.find(({ name }) => name.endsWith(".index.json"));
  const file = index ?? files.find(({ name }) => !name.endsWith(".json")) ?? files[0]!;
  return { place: { file, beside: files.filter((other) => other !== file) }, name: file.name };
}
