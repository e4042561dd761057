/** What to tell a person about an error. */

/** The package's errors are sentences already; everything else is at least introduced by one. */
export function sentenceOf(error: unknown): string {
  if (error instanceof Error && error.message !== "") {
    return /[.!?]$/.test(error.message) ? error.message : `Something went wrong: ${error.message}.`;
  }
  return `Something went wrong: ${String(error)}.`;
}
