/** Loads uPlot when the first chart is drawn. */

import type uPlot from "uplot";

/** Returns uPlot, and imports it first if necessary. */
export async function loadPlot(): Promise<typeof uPlot> {
  // uPlot creates a number format for the browser's language when it is loaded, which fails if the language is a POSIX
  // locale: WebKitGTK reports "C". The formats of these charts do not depend on the language.
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
