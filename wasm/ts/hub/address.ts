/**
 * Parses the names and page URLs of repositories. Addresses after `hf://` follow the rules of the Rust library
 * (tests/hub/addresses.json).
 */

import { InvalidInputError } from "../errors.js";

/** The default hub, which names without an address refer to. */
export const HUGGING_FACE = "https://huggingface.co";

/** The type of a repository, by its contents. */
export type RepositoryKind = "models" | "datasets" | "spaces" | "kernels";

/** A repository of a hub, or a file or folder in it. */
export interface HubAddress {
  /** The URL of the hub, without a trailing slash. */
  readonly endpoint: string;
  /** The type of the repository. */
  readonly kind: RepositoryKind;
  /** Owner and name; the name alone for some old models of Hugging Face. */
  readonly repository: string;
  /** The branch, tag or commit; `undefined` for the branch `main`. */
  readonly revision: string | undefined;
  /** The path of a file or folder; `undefined` for the whole repository. */
  readonly file: string | undefined;
}

type Parts = Omit<HubAddress, "endpoint">;

const KINDS: readonly string[] = ["models", "datasets", "spaces", "kernels"] satisfies RepositoryKind[];

/** The longest name of an owner or a repository, in characters. */
const MAX_NAME_LENGTH = 96;

/** The first path components of Hugging Face pages that are not owners of repositories. */
const PAGES = new Set("api blog chat collections docs enterprise inference join learn login logout new organizations papers posts pricing settings support tasks".split(" "));

/**
 * Parses `owner/name`, `owner/name@revision` and `owner/name/file`, the same after `hf://`, and page URLs of a hub:
 * `https://huggingface.co/owner/name`, with `/tree/…`, `/blob/…`, `/resolve/…` and `/raw/…`. `endpoint` is the hub that
 * names refer to; if it is given, page URLs must be below it. Throws an `InvalidInputError` for a text that names no
 * repository.
 */
export function parseHubAddress(text: string, endpoint?: string): HubAddress {
  const trimmed = text.trim();
  try {
    if (/^https?:\/\//i.test(trimmed)) return pageAddress(trimmed, endpoint);
    return { endpoint: endpoint ?? HUGGING_FACE, ...nameParts(trimmed.replace(/^hf:\/\//i, "")) };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    throw new InvalidInputError(`${trimmed || "An empty text"} is not a repository of a hub: ${error.message}. Write owner/name, owner/name@revision or hf://owner/name/file.`);
  }
}

/** Returns the normalised URL of a hub. Throws an `InvalidInputError` for anything that is not an http(s) URL. */
export function normalEndpoint(text: string): string {
  if (URL.canParse(text)) {
    const { protocol, origin, pathname } = new URL(text);
    if (/^https?:$/.test(protocol)) return `${origin}${pathname.replace(/\/+$/, "")}`;
  }
  throw new InvalidInputError(`The address of a hub is an http(s) URL such as ${HUGGING_FACE}, and not ${text || "empty"}.`);
}

/** Returns the URL of the repository's page. */
export const pageOf = (address: Pick<HubAddress, "endpoint" | "kind" | "repository">): string =>
  `${address.endpoint}/${address.kind === "models" ? "" : `${address.kind}/`}${address.repository}`;

/** Returns the URL of a file of the repository. */
export function fileUrl(address: Pick<HubAddress, "endpoint" | "kind" | "repository">, revision: string, file: string): URL {
  return new URL(`${pageOf(address)}/resolve/${encodeURIComponent(revision)}/${file.split("/").map(encodeURIComponent).join("/")}`);
}

class Refused extends Error {}

function nameParts(text: string): Parts {
  const { kind, rest } = withoutKind(text);
  // An `@` after the repository's name and a slash belongs to the path of the file.
  const [, owner = "", name, mark, after = ""] = /^([^/]*)(?:\/([^/@]*))?(?:([@/])([^]*))?$/.exec(rest) ?? [];
  if (name === undefined) return legacyParts(kind, rest);
  for (const each of [owner, name]) checkName(each);
  const repository = `${owner}/${name}`;
  if (mark !== "@") return { kind, repository, revision: undefined, file: pathOf(after) };
  return { kind, repository, ...revisionAndFile(after) };
}

/** Parses the name of a repository without an owner. */
function legacyParts(kind: RepositoryKind, text: string): Parts {
  const [, name = "", revision] = /^([^@]*)(?:@([^]*))?$/.exec(text) ?? [];
  checkName(name);
  return { kind, repository: name, ...(revision === undefined ? { revision, file: undefined } : revisionAndFile(revision)) };
}

function withoutKind(text: string): { kind: RepositoryKind; rest: string } {
  const slash = text.indexOf("/");
  const first = text.slice(0, Math.max(slash, 0));
  if (first === "buckets") throw new Refused("buckets cannot be read");
  return KINDS.includes(first) ? { kind: first as RepositoryKind, rest: text.slice(slash + 1) } : { kind: "models", rest: text };
}

/**
 * Splits the text after the `@` into a revision and a file. The references of pull requests and conversions may be
 * written with their slashes.
 */
function revisionAndFile(text: string): Pick<HubAddress, "revision" | "file"> {
  const reference = /^refs\/(?:pr\/\d+|convert\/[\w.-]+)(?=\/|$)/.exec(text)?.[0];
  const end = reference?.length ?? (text.includes("/") ? text.indexOf("/") : text.length);
  if (end === 0) throw new Refused("the revision after @ is empty");
  return { revision: reference ?? checkedRevision(decoded(text.slice(0, end))), file: pathOf(text.slice(end + 1)) };
}

/** Returns whether a revision or path has an empty component, `.` or `..`, which URLs would drop. */
export const hasOddComponent = (path: string): boolean => path.split("/").some((name) => name === "" || name === "." || name === "..");

function checkedRevision(revision: string): string {
  if (hasOddComponent(revision)) throw new Refused("the revision has an empty component, . or ..");
  return revision;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new Refused(`\`${part}\` is not percent-encoded text`);
  }
}

function pathOf(text: string): string | undefined {
  if (text === "") return undefined;
  const path = text.replace(/\/$/, "");
  if (hasOddComponent(path)) throw new Refused("the path of the file has an empty component, . or ..");
  return path;
}

function checkName(name: string): void {
  const isName = /^[\w.-]+$/.test(name) && name.length <= MAX_NAME_LENGTH && !/^[.-]|[.-]$|\.\./.test(name);
  if (!isName) throw new Refused(`\`${name}\` is not a name of an owner or a repository`);
}

/** Parses the page URL of a repository, or of a file or folder in it. */
function pageAddress(text: string, asked: string | undefined): HubAddress {
  if (!URL.canParse(text)) throw new Refused("it is not a valid URL");
  const { origin, pathname } = new URL(text);
  const endpoint = asked ?? (/^https:\/\/(www\.huggingface\.co|hf\.co)$/.test(origin) ? HUGGING_FACE : origin);
  const root = new URL(endpoint);
  const folder = root.pathname.replace(/\/*$/, "/");
  if (asked !== undefined && (origin !== root.origin || !pathname.startsWith(folder))) throw new Refused(`it is not below ${endpoint}`);
  const inside = asked === undefined ? pathname.slice(1) : pathname.slice(folder.length);
  const all = inside.split("/").filter(Boolean).map(decoded);
  const kind = KINDS.includes(all[0] ?? "") ? (all.shift() as RepositoryKind) : "models";
  if (PAGES.has(all[0] ?? "")) throw new Refused("that page is no repository");
  const isPage = (part: string | undefined) => part !== undefined && ["tree", "blob", "resolve", "raw", "commit", "discussions"].includes(part);
  const names = all.splice(0, isPage(all[1]) ? 1 : 2);
  if (names.length === 0) throw new Refused("that page is no repository");
  for (const name of names) checkName(name);
  const at = { endpoint, kind, repository: names.join("/") };
  const [what, ...rest] = all;
  if (what === undefined) return { ...at, revision: undefined, file: undefined };
  if (what === "commit" && rest[0] !== undefined) return { ...at, revision: checkedRevision(rest[0]), file: undefined };
  if (!isPage(what) || what === "discussions") throw new Refused("that page is no repository and no file in one");
  const isReference = rest[0] === "refs" && (rest[1] === "pr" || rest[1] === "convert") && rest[2] !== undefined;
  const revision = checkedRevision(rest.splice(0, isReference ? 3 : 1).join("/"));
  const file = pathOf(rest.join("/"));
  if ( (file === undefined && what !== "tree")) throw new Refused("that page is no file");
  return { ...at, revision, file };
}
