/** The errors that hubs cause. */

import { HttpError, ZstnError } from "../errors.js";
import type { HubAddress } from "./address.js";

/** The reason that a hub refused a request. */
export type HubRefusal = "gated" | "credentials" | "disabled" | "forbidden" | "repository" | "revision" | "file";

/** The hub refused a request. The `code` of this error is `"http"`, as for every `HttpError`. */
export class HubError extends HttpError {
  override name = "HubError";
  /**
   * `"gated"`: terms have to be accepted first. `"credentials"`: the token is not valid. `"repository"`: no repository
   * has this name, or it is private. `"revision"`, `"file"`: the repository has no such revision or file. `"disabled"`,
   * `"forbidden"`: the hub does not allow access.
   */
  readonly reason: HubRefusal;
  /** The repository of the request. */
  readonly repository: string;

  /** @internal */
  constructor(url: string, status: number, reason: HubRefusal, repository: string, message: string) {
    super(url, status, message);
    this.reason = reason;
    this.repository = repository;
  }
}

/** The repository has no file that can be opened, or it has several and none is the obvious choice. */
export class HubFileError extends ZstnError {
  override name = "HubFileError";
  /** The repository that was searched. */
  readonly repository: string;
  /** The candidates for the option `file`. Empty if the repository has no file that can be opened. */
  readonly candidates: readonly string[];
  /** The paths of all files of the repository. */
  readonly files: readonly string[];

  /** @internal */
  constructor(repository: string, candidates: readonly string[], files: readonly string[], message: string) {
    super("hub_file", message);
    this.repository = repository;
    this.candidates = candidates;
    this.files = files;
  }
}

/** The properties of the client that determine the advice in an error message. */
export interface Asker {
  hasToken: boolean;
  /** Advice on how to log in, as the end of a sentence. */
  logIn: string;
  /** The URL of the hub, where users create tokens. */
  endpoint: string;
}

/** Returns the error for a refused request; `undefined` if the response explains nothing beyond its status. */
export function refusalOf(response: Response, url: string, address: HubAddress, page: string, { hasToken, logIn, endpoint }: Asker): HubError | undefined {
  const { status } = response;
  const { repository, revision = "main" } = address;
  const code = response.headers.get("x-error-code");
  const message = response.headers.get("x-error-message") ?? "";
  const error = (reason: HubRefusal, text: string) => new HubError(url, status, reason, repository, `${text} (status ${status}).`);
  if (code === "EntryNotFound") return error("file", `There is no file ${address.file ?? ""} in ${repository} at ${revision}. Check its path`);
  if (code === "RevisionNotFound") return error("revision", `${repository} has no branch, tag or commit ${revision}`);
  if (code === "GatedRepo") {
    const then = hasToken ? "with the account that the token belongs to, and make sure that the token may read gated repositories" : `then ${logIn}`;
    return error("gated", `${repository} is gated. Accept its terms at ${page} ${then}`);
  }
  if (message.startsWith("Invalid credentials")) return error("credentials", `The hub does not accept the token, which may have expired. Make another one at ${endpoint}/settings/tokens and ${logIn}`);
  if (message.startsWith("Access to this resource is disabled")) return error("disabled", `The hub has disabled access to ${repository}`);
  if (code === "RepoNotFound" || (code === null && (status === 401 || status === 404))) {
    const who = hasToken ? "the token may not read it" : "it is private";
    const then = hasToken ? `, and the token's permissions at ${endpoint}/settings/tokens` : `; if it is private, ${logIn}`;
    const owner = repository.includes("/") ? "" : " Most repositories are written owner/name.";
    return error("repository", `There is no repository ${repository}, or ${who}. Check the name${then}.${owner}`.replace(/\.$/, ""));
  }
  if (status === 403) return error("forbidden", message === "" ? `The hub does not allow reading ${repository}: ${hasToken ? "check the token's permissions" : logIn}` : `The hub says: ${message.replace(/\.$/, "")}`);
  return undefined;
}
