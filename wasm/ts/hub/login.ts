/** Determines the hub that an address refers to, and the token for it. */

import { HUGGING_FACE, hasOddComponent, normalEndpoint, parseHubAddress } from "./address.js";
import type { HubAddress } from "./address.js";
import { InvalidInputError } from "../errors.js";
import { environment } from "./environment.js";
import type { RequestOptions } from "./client.js";

/** The options that select the revision, the hub and the token. */
export interface RepositoryOptions {
  /** The branch, tag or commit. The branch `main` by default. */
  revision?: string;
  /** The URL of the hub. In Node `HF_ENDPOINT` by default, otherwise Hugging Face. */
  endpoint?: string;
  /**
   * The access token. It is sent to the hub only, and not to servers that the hub redirects to. In Node the default is
   * the token in `HF_TOKEN`, or in the file that `hf auth login` writes, but only for the hub at `HF_ENDPOINT` or
   * Hugging Face.
   */
  token?: string;
}

/**
 * Returns the address of a repository, parsed if it is a text, with the options applied. Throws an `InvalidInputError`
 * if the two contradict each other.
 */
export function addressOf(repository: string | HubAddress, { revision, endpoint }: RepositoryOptions): HubAddress {
  const named = endpoint === undefined ? undefined : normalEndpoint(endpoint);
  const address = typeof repository === "string" ? parsed(repository, named) : { ...repository, endpoint: named ?? normalEndpoint(repository.endpoint) };
  for (const each of [revision, address.revision]) {
    if (each !== undefined && hasOddComponent(each)) throw new InvalidInputError(`The revision is a branch, tag or commit, and not ${each || "empty"}. Leave it out for the branch main.`);
  }
  if (revision === undefined) return address;
  if (address.revision !== undefined && address.revision !== revision) throw new InvalidInputError(`The address names the revision ${address.revision}, and the option \`revision\` another one (${revision}).`);
  return { ...address, revision };
}

function parsed(text: string, endpoint: string | undefined): HubAddress {
  const isPage = /^\s*https?:/i.test(text);
  return parseHubAddress(text, endpoint ?? (isPage ? knownAbove(text) : ownEndpoint()));
}

/** Returns `options` with the token for the hub of `address`: the token that is given, otherwise the user's own. */
export async function withToken<Options extends RequestOptions>(address: HubAddress, given: string | undefined, options: Options): Promise<Options> {
  const token = given ?? options.token;
  if (token !== undefined) return { ...options, token };
  if (new Headers(options.headers).has("authorization")) return options;
  // The user's own token is for the user's hub, even if a page or an option names another hub.
  const own = originOf(address.endpoint) === originOf(ownEndpoint()) ? await environment().token() : undefined;
  return own === undefined ? options : { ...options, token: own };
}

const originOf = (url: string): string => new URL(url).origin;

/** Returns the hub that names refer to. */
function ownEndpoint(): string {
  const own = environment().endpoint();
  return own === undefined ? HUGGING_FACE : normalEndpoint(own);
}

/**
 * Returns the hub of the environment if `text` is a URL below it. The URL of a hub may have a path, which cannot be
 * derived from the URL of a page.
 */
function knownAbove(text: string): string | undefined {
  const own = ownEndpoint();
  return text.trim().startsWith(`${own}/`) ? own : undefined;
}
