/** The version of a file that a source reads from a web server. */

import type { Validators } from "./validator.js";

/** The properties of the file in the first response. */
export interface FirstResponse {
  /** Size of the file, in bytes; `undefined` if the response does not contain it. */
  sizeBytes: number | undefined;
  validators: Validators;
  /** The value of `If-Range` for later requests; `undefined` if it would not help or would need a preflight request. */
  ifRange: string | undefined;
  /** True if the server has sent the whole file, because it does not support ranges. */
  isWhole?: true;
}

export interface Pinned extends FirstResponse {
  sizeBytes: number;
  /** The bytes in memory: the head, or the whole file if the server does not support ranges. */
  kept: Uint8Array;
  /** True if the bytes of the head were reported as progress when they arrived. */
  announced: boolean;
  /** Identifies the version; `undefined` without a strong ETag, or once a response of another version has been accepted. */
  version: string | undefined;
}
