/** What can be opened. */

import type { HttpOptions } from "./source/http/options.js";
import type { Source } from "./source/source.js";

/** Bytes in memory. */
export type BytesInput = ArrayBuffer | Uint8Array;

/** An input that needs no request to a web server: bytes, a `Blob` or `File`, or your own `Source`. */
export type LocalInput = Blob | BytesInput | Source;

/** Options for finding the URL of a `HubInput`. */
export type LocateOptions = HttpOptions & {
  /** Stops the search, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
};

/** Where a model in a repository is. */
export interface HubLocation {
  /** The URL of the file. */
  readonly url: URL;
  /** Owner and name of the repository, as the hub spells them. */
  readonly repository: string;
  /** The commit that the file and its siblings are read from; the name of the revision if the hub does not say. */
  readonly revision: string;
  /** The path of the file. */
  readonly file: string;
  /** The options to read the URL with, in addition to those that were given. */
  readonly options: Pick<HttpOptions, "token" | "fetch">;
}

/** A model in a repository, from `hub()` of `zstn/hub`. Its URL is found when it is opened. */
export interface HubInput {
  /** The origin of the hub. */
  readonly origin: string;
  /** Returns the URL. */
  locate(options?: LocateOptions): Promise<HubLocation>;
}

/**
 * What `open` takes: a URL (in Node also a path), a `Blob` or `File`, bytes, your own `Source`, or a model in a repository:
 * what `hub()` of `zstn/hub` returns, or `hf://owner/name`, `hf://owner/name@revision/file` for short. In browsers a
 * relative URL is resolved against the page.
 */
export type ModelInput = string | URL | LocalInput | HubInput;
