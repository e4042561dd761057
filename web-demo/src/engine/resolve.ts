/** Resolves the text of the address field or of a link: a URL, or a repository of a hub. */

import { HubError, HubFileError, hub as hubInput, parseHubAddress } from "zstn/hub";
import type { HubAddress } from "zstn/hub";
import { HUGGING_FACE, isBelow, isHubUrl, isRepository } from "../open/parse-input.js";
import { hostOf, webOrigin } from "../page/origin.js";
import type { ResolveRequest, ResolveResult } from "./protocol.js";

export type Source = { readonly kind: "address"; readonly address: string } | { readonly kind: "repository"; readonly repository: HubAddress };

/** The error for a refused request that another access token may allow. The page recognises it by its `origin`. */
class Refusal extends Error {
  constructor(message: string, readonly origin: string, readonly status: number) {
    super(message);
  }
}

/** Resolves a text to the URL of the file to open, or to the files of a repository if none is the obvious choice. */
export async function resolve({ text, hub, page, tokens }: ResolveRequest, signal: AbortSignal): Promise<ResolveResult> {
  const parsed = parseInput(text, hub);
  if (parsed.kind === "repository") return ofRepository(parsed.repository, tokens, signal);
  if (isHubUrl(parsed.address)) parseHubAddress(parsed.address); // throws an error that explains the correct form
  // `open` would resolve a relative URL against the URL of the worker.
  const url = URL.canParse(parsed.address, page) ? new URL(parsed.address, page) : undefined;
  const address = url?.href ?? parsed.address;
  return { source: { address }, name: url ? nameOf(url, parsed.address) : address, inRepository: asFileOfRepository(text) };
}

/**
 * Parses names of repositories, which are at Hugging Face; `hf://…`; page URLs of Hugging Face, or of the hub at the
 * address `hub`; and other addresses. Any other text is an address relative to the page, so that no hub receives a local
 * path.
 */
export function parseInput(text: string, hub?: string): Source {
  const trimmed = text.trim();
  const found = isRepository(trimmed) ? repositoryOf(trimmed) : (pageBelow(HUGGING_FACE, trimmed) ?? (hub === undefined ? undefined : pageBelow(hub, trimmed)));
  return found ? { kind: "repository", repository: found } : { kind: "address", address: trimmed };
}

/** Returns the address `hf://owner/name/file` for a text `owner/name/file`; `undefined` for other texts. */
export function asFileOfRepository(text: string): string | undefined {
  const trimmed = text.trim();
  if (isHubUrl(trimmed) || /^https?:|[?#]|\/$/i.test(trimmed)) return undefined;
  return repositoryOf(trimmed)?.file === undefined ? undefined : `hf://${trimmed}`;
}

/** Finds the model of a repository. All its files are then read from the same commit. */
async function ofRepository(address: HubAddress, tokens: ReadonlyMap<string, string>, signal: AbortSignal): Promise<ResolveResult> {
  const origin = webOrigin(address.endpoint)!;
  const token = tokens.get(origin);
  try {
    const { url, repository } = await hubInput(address, token === undefined ? {} : { token }).locate({ signal });
    // A link may name any hub. Its name is shown, so that the hub is not mistaken for Hugging Face.
    const elsewhere = address.endpoint === HUGGING_FACE ? "" : `, at ${hostOf(origin)}`;
    return { source: { address: url.href }, name: `${repository} · ${nameOf(url, url.href)}${elsewhere}` };
  } catch (error) {
    if (error instanceof HubFileError && error.candidates.length > 0) return { repository: error.repository, files: error.candidates.map((path) => ({ path, address: linkTo(address, path) })) };
    throw error instanceof HubError ? (refusalOf(error, address, origin) ?? error) : error;
  }
}

/** Returns the error that the page shows if the hub refused access and a token may help; `undefined` otherwise. */
function refusalOf({ reason, status }: HubError, { repository }: HubAddress, origin: string): Refusal | undefined {
  const host = hostOf(origin);
  switch (reason) {
    case "repository":
      return new Refusal(`There is no repository ${repository} at ${host}, or it is not public (status ${status}).`, origin, status);
    case "gated":
      return new Refusal(`${repository} is gated: its terms have to be accepted on ${host} first (status ${status}).`, origin, status);
    case "credentials":
      return new Refusal(`${host} does not know the access token, which may have expired (status ${status}).`, origin, status);
    case "forbidden":
      return new Refusal(`${host} did not let this page read ${repository} (status ${status}).`, origin, status);
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

function pageBelow(hub: string, text: string): HubAddress | undefined {
  return isBelow(hub, text) ? repositoryOf(text, hub) : undefined;
}

function repositoryOf(text: string, hub?: string): HubAddress | undefined {
  try {
    return parseHubAddress(text, hub);
  } catch {
    return undefined;
  }
}

/** Returns the last path component of a URL, for display; `address` if it has none. */
function nameOf({ pathname }: URL, address: string): string {
  const name = pathname.slice(pathname.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(name) || address;
  } catch {
    return name; // a lone "%"
  }
}
