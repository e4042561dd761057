/** What can be opened. */

import type { Source } from "./source/source.js";

/**
 * What `open` takes: a URL (in Node also a path), a `Blob` or `File`, bytes, or your own `Source`. In browsers a relative
 * URL is resolved against the page.
 */
export type ModelInput = string | URL | Blob | ArrayBuffer | Uint8Array | Source;
