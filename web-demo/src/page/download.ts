/** Downloads from the page. */

import { element } from "./element.js";

export function downloadBlob(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  // The URL is revoked later, because the browser has not read it yet.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
