/** User preferences that the browser stores. Without storage, they last as long as the page. */

const PREFIX = "zstn.";

export function readPreference(name: string): string | undefined {
  try {
    return localStorage.getItem(PREFIX + name) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Stores a preference; `undefined` removes it. */
export function writePreference(name: string, value: string | undefined): void {
  try {
    if (value === undefined) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // Storage may be forbidden or full.
  }
}
