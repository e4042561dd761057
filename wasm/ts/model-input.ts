/** What can be opened. */

import type { Source } from "./source/source.js";

/** Bytes in memory. */
export type BytesInput = ArrayBuffer | Uint8Array;

/** An input that needs no request to a web server: bytes, a `Blob` or `File`, or your own `Source`. */
export type LocalInput = Blob | BytesInput | Source;

/**
 * What `open` takes: a URL (in Node also a path), a `Blob` or `File`, bytes, or your own `Source`. In browsers a relative
 * URL is resolved against the page.
 */
export type ModelInput = string | URL | LocalInput;
