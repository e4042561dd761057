/** The text of errors, and the action that may help. */

import { EngineError } from "../engine/client.js";
import { refusalOf } from "./refusal.js";

/** Returns a sentence about an error. Errors of the package are sentences already; others are introduced by one. */
export function errorText(error: unknown): string {
  const refusal = refusalOf(error);
  if (refusal) return refusal.message;
  if (error instanceof EngineError && error.code === "base_required") return "This is a delta: choose the model it was made from.";
  if (error instanceof Error && error.message !== "") {
    return /[.!?]$/.test(error.message) ? error.message : `Something went wrong: ${error.message}.`;
  }
  return `Something went wrong: ${String(error)}.`;
}

/** Returns advice, where the message itself has none. */
export function suggestedAction(error: unknown): string | undefined {
  if (!(error instanceof EngineError)) return undefined;
  if (refusalOf(error)) return "If it is private or gated, add an access token under “Options” and open it again.";
  if (error.code === "network") return "If the address is right, its server may not let other pages read it (CORS): download the file and drop it here.";
  if (error.code === "malformed" || error.code === "unsupported") return "This page reads .safetensors, .zstn, .z4dm, .zt, .gauss and index files of models in shards.";
  if (error.code === "limit") return "View some rows in the heatmap instead, or use the command line.";
  return undefined;
}

/** Returns whether the user cancelled the action, which is not an error. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}
