/** Loading uPlot, when the first chart is drawn. */

import type uPlot from "uplot";

/** Returns uPlot. */
export async function loadPlot(): Promise<typeof uPlot> {
  // It makes a number format of the browser's language as it is loaded, and fails where that is the name of a POSIX
  // locale: WebKitGTK says "C". The formats of these charts do not depend on it.
  if (!isLanguage(navigator.language)) Object.defineProperty(navigator, "language", { value: "en", configurable: true });
  return (await import("uplot")).default;
}

function isLanguage(tag: string): boolean {
  try {
    return Intl.getCanonicalLocales(tag).length > 0;
  } catch {
    return false;
  }
}
