/** One commit of a repository, and the names of its files. */

import { FormatError } from "../errors.js";
import type { HubAddress } from "./address.js";
import { ask } from "./client.js";
import type { RequestOptions } from "./client.js";

/** A repository as it was at one commit. */
export interface Snapshot {
  /** The address, with the repository's current name on the hub. Old names redirect to new ones. */
  address: HubAddress;
  /** The commit; the requested revision if the hub does not report a commit. */
  revision: string;
  /** The paths of all files. */
  paths: string[];
}

/** Returns whether `text` is the full name of a commit. */
export const isCommit = (text: unknown): text is string => typeof text === "string" && /^[0-9a-f]{40,64}$/.test(text);

/** Returns the URL of a repository in the hub's API. */
export const apiUrl = ({ endpoint, kind, repository }: HubAddress, rest: string): URL => new URL(`${endpoint}/api/${kind}/${repository}/${rest}`);

/** Requests from the hub the commit that the revision points to, and the names of its files. */
export async function readSnapshot(address: HubAddress, options: RequestOptions): Promise<Snapshot> {
  const { repository, revision = "main" } = address;
  const url = apiUrl(address, `revision/${encodeURIComponent(revision)}`);
  const { value } = await ask(url, address, options);
  const { id, sha, siblings } = (value ?? {}) as { id?: unknown; sha?: unknown; siblings?: unknown };
  if (!Array.isArray(siblings)) throw new FormatError(`The answer of ${url.host} does not list the files of ${repository}. Check the address of the hub.`);
  const paths = siblings.flatMap((each: { rfilename?: unknown } | null) => (typeof each?.rfilename === "string" ? [each.rfilename] : []));
  const name = typeof id === "string" && /^[\w.-]+(\/[\w.-]+)?$/.test(id) ? id : repository;
  return { address: { ...address, repository: name }, revision: isCommit(sha) ? sha : revision, paths };
}
