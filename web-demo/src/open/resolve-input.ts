/** Resolves the user's input to a source that the worker can open. */

import { HubError, HubFileError, hub, parseHubAddress } from "zstn/hub";
import type { HubAddress } from "zstn/hub";
import type { ModelSource } from "../engine/protocol.js";
import { hostOf, webOrigin } from "../page/origin.js";
import { AccessError } from "../page/access-error.js";
import { HUGGING_FACE, isHubUrl, nameOf, parseInput } from "./parse-input.js";
import type { Tokens } from "./tokens.js";

/** The user's input: text or files. */
export type UserInput = { readonly text: string } | { readonly files: readonly File[] };

export interface ResolvedInput {
  readonly source: ModelSource;
  readonly name: string;
}

/** The error for a repository that has several models and no obvious choice among them. */
export class ChoiceNeeded extends Error {
  readonly files: readonly { path: string; address: string }[];

  constructor(repository: string, files: readonly { path: string; address: string }[]) {
    super(`The repository ${repository} has several models. Choose one of them:`);
    this.files = files;
  }
}

/** Resolves the input. `otherHub` is the URL of a hub in addition to Hugging Face. */
export async function resolveInput(input: UserInput, otherHub: string | undefined, tokens: Tokens, signal: AbortSignal): Promise<ResolvedInput> {
  if ("files" in input) return ofFiles(input.files);
  const parsed = parseInput(input.text, otherHub);
  if (parsed.kind === "repository") return ofRepository(parsed.repository, tokens, signal);
  if (isHubUrl(parsed.address)) parseHubAddress(parsed.address); // throws an error that explains the correct form
  // The worker would resolve a relative URL against its own URL.
  const address = URL.canParse(parsed.address, document.baseURI) ? new URL(parsed.address, document.baseURI).href : parsed.address;
  return { source: { address }, name: nameOf(parsed.address) };
}

/** Finds the model of a repository. All its files are then read from the same commit. */
async function ofRepository(address: HubAddress, tokens: Tokens, signal: AbortSignal): Promise<ResolvedInput> {
  const origin = webOrigin(address.endpoint)!;
  const token = tokens.at(origin);
  try {
    const { url, repository } = await hub(address, token === undefined ? {} : { token }).locate({ signal });
    // A link may name any hub. Its name is shown, so that the hub is not mistaken for Hugging Face.
    const elsewhere = address.endpoint === HUGGING_FACE ? "" : `, at ${hostOf(origin)}`;
    return { source: { address: url.href }, name: `${repository} · ${nameOf(url.href)}${elsewhere}` };
  } catch (error) {
    if (error instanceof HubFileError && error.candidates.length > 0) throw new ChoiceNeeded(error.repository, error.candidates.map((path) => ({ path, address: linkTo(address, path) })));
    throw error instanceof HubError ? (accessErrorOf(error, address, origin) ?? error) : error;
  }
}

/** Returns the error that this page shows if the hub refused access and a token may help; `undefined` otherwise. */
function accessErrorOf({ reason, status }: HubError, { repository }: HubAddress, origin: string): AccessError | undefined {
  const host = hostOf(origin);
  switch (reason) {
    case "repository":
      return new AccessError(`There is no repository ${repository} at ${host}, or it is not public (status ${status}).`, origin, status);
    case "gated":
      return new AccessError(`${repository} is gated: its terms have to be accepted on ${host} first (status ${status}).`, origin, status);
    case "credentials":
      return new AccessError(`${host} does not know the access token, which may have expired (status ${status}).`, origin, status);
    case "forbidden":
      return new AccessError(`${host} did not let this page read ${repository} (status ${status}).`, origin, status);
    default:
      return undefined;
  }
}

/** Returns the address that opens one file of a repository, in the short form for Hugging Face. */
function linkTo(address: HubAddress, path: string): string {
  const { endpoint, kind, repository, revision } = address;
  const folder = kind === "models" ? "" : `${kind}/`;
  if (endpoint === HUGGING_FACE && repository.includes("/")) return `hf://${folder}${repository}${revision === undefined ? "" : `@${encodeURIComponent(revision)}`}/${path}`;
  return `${endpoint}/${folder}${repository}/blob/${encodeURIComponent(revision ?? "main")}/${path.split("/").map(encodeURIComponent).join("/")}`;
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
