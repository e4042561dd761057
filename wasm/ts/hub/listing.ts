/** Lists the model files of a repository. */

import { HTTP_OPTIONS, checkOptions } from "../known-options.js";
import type { OptionNames } from "../known-options.js";
import { FormatError, InvalidInputError } from "../errors.js";
import type { LocateOptions } from "../model-input.js";
import { fileUrl } from "./address.js";
import type { HubAddress } from "./address.js";
import { chooseFiles, isModelFile } from "./choice.js";
import { ask } from "./client.js";
import { addressOf, withToken } from "./login.js";
import type { RepositoryOptions } from "./login.js";
import { apiUrl, readSnapshot } from "./repository.js";

/** Options of `listModelFiles`. */
export type ListOptions = RepositoryOptions & LocateOptions;

/** A file of a repository that `open` reads. */
export interface ModelFile {
  /** The path in the repository. */
  readonly path: string;
  /** Length of the file, in bytes; `undefined` if the hub does not report it. */
  readonly sizeBytes: number | undefined;
  /** The SHA-256 of the content, in hexadecimal digits; `undefined` for files outside Git LFS, such as an index. */
  readonly sha256: string | undefined;
  /** The commit that the listing belongs to. */
  readonly revision: string;
  /** The URL of this version of the file. Reading it needs the same token as the repository. */
  readonly url: URL;
  /** True if `hub()` opens this file when no file is named. */
  readonly isDefault: boolean;
}

/** The maximum number of pages of a listing that are read. Each page has a thousand files. */
const MAX_PAGES = 1000;

interface Entry {
  type?: unknown;
  path?: unknown;
  size?: unknown;
  lfs?: { oid?: unknown; size?: unknown } | null;
}

/**
 * Lists the files of a repository that `open` reads: models, their shards and indices. All belong to one commit and are
 * sorted by path. Accepts the same addresses as `hub`; with a folder in the address, only the files in that folder are
 * listed. Rejects with a `HubError` if the hub refuses the request, and with an `InvalidInputError` if there is no such
 * folder.
 */
export async function listModelFiles(repository: string | HubAddress, options: ListOptions = {}): Promise<ModelFile[]> {
  checkOptions("listModelFiles()", options, { revision: 1, signal: 1, ...HTTP_OPTIONS } satisfies OptionNames<ListOptions>);
  const { revision: _revision, endpoint: _endpoint, ...rest } = options;
  const asked = addressOf(repository, options);
  const request = await withToken(asked, undefined, rest);
  const { address, revision, paths } = await readSnapshot(asked, request);
  const folder = asked.file === undefined ? "" : `${asked.file}/`;
  if (asked.file !== undefined && !paths.some((path) => path.startsWith(folder))) {
    throw new InvalidInputError(`${address.repository} has no folder ${asked.file}. Name the repository, or a folder in it.`);
  }
  const entries = new Map<string, Entry>();
  let next: URL | undefined = apiUrl(address, `tree/${encodeURIComponent(revision)}?recursive=true`);
  for (let page = 0; next && page < MAX_PAGES; page++) {
    const { value, headers } = await ask(next, address, request);
    if (!Array.isArray(value)) throw new FormatError(`The answer of ${next.host} does not list files. Check the address of the hub.`);
    for (const entry of value as (Entry | null)[]) if (entry?.type === "file" && typeof entry.path === "string") entries.set(entry.path, entry);
    next = nextPage(headers, next);
  }
  const chosen = chooseFiles(paths);
  const known = [...new Set([...paths, ...entries.keys()])].filter((path) => path.startsWith(folder) && isModelFile(path));
  return known.sort().map((path) => {
    const { size, lfs } = entries.get(path) ?? {};
    return {
      path,
      sizeBytes: typeof lfs?.size === "number" ? lfs.size : typeof size === "number" ? size : undefined,
      sha256: typeof lfs?.oid === "string" ? lfs.oid : undefined,
      revision,
      url: fileUrl(address, revision, path),
      isDefault: chosen.length === 1 && chosen[0] === path,
    };
  });
}

/** Returns the URL of the next page, if the hub names one on the same origin. Another server must not receive the token. */
function nextPage(headers: Headers, page: URL): URL | undefined {
  const [, link] = /<([^>]+)>\s*;\s*rel="?next"?/.exec(headers.get("link") ?? "") ?? [];
  if (link === undefined || !URL.canParse(link, page)) return undefined;
  const next = new URL(link, page);
  return next.origin === page.origin ? next : undefined;
}
