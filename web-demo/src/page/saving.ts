/** Handing a file to the visitor. */

import { element } from "./element.js";

export function saveBlob(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  // Not at once: the browser is still about to read it.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
