/** The inputs that `open` and `pack` accept. */

import type { HttpOptions } from "./source/http/options.js";
import type { Sliceable, Source } from "./source/source.js";

/** Bytes in memory. */
export type BytesInput = ArrayBuffer | Uint8Array;

/** An input that needs no request to a web server: bytes, a `Blob` or `File`, an object with `byteLength` and `slice`, or your own `Source`. */
export type LocalInput = Blob | BytesInput | Sliceable | Source;

/** Options for finding the URL of a `HubInput`. */
export type LocateOptions = HttpOptions & {
  /** Aborts the search, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
};

/** The location of a model in a hub repository. */
export interface HubLocation {
  /** The URL of the file. */
  readonly url: URL;
  /** Owner and name of the repository, in the hub's spelling. */
  readonly repository: string;
  /** The commit that the file and its siblings are read from; the requested revision if the hub does not report a commit. */
  readonly revision: string;
  /** The path of the file in the repository. */
  readonly file: string;
  /** The options that reading the URL needs in addition to those that were given. */
  readonly options: Pick<HttpOptions, "token" | "fetch">;
}

/** A model in a hub repository, created by `hub()` of `zstn/hub`. Its URL is resolved when it is opened. */
export interface HubInput {
  /** The origin of the hub. */
  readonly origin: string;
  /**
   * Resolves the URL. Rejects with a `HubError` if the hub refuses the request, and with a `HubFileError` if no file
   * can be chosen.
   */
  locate(options?: LocateOptions): Promise<HubLocation>;
}

/**
 * The inputs of `open`: a URL (in Node also a path), a `Blob` or `File`, bytes, an object with `byteLength` and `slice`,
 * your own `Source`, or a model in a hub repository. A model in a repository is the result of `hub()` of `zstn/hub`, or an address `hf://owner/name` or
 * `hf://owner/name@revision/file`. In browsers a relative URL is resolved against the page.
 */
export type ModelInput = string | URL | LocalInput | HubInput;
