/** What to tell a person about an error, and what may help. */

import { EngineError } from "../engine/client.js";
import { refusalOf } from "./refusal.js";

/** The package's errors are sentences already; everything else is at least introduced by one. */
export function sentenceOf(error: unknown): string {
  const refusal = refusalOf(error);
  if (refusal) return refusal.message;
  if (error instanceof Error && error.message !== "") {
    return /[.!?]$/.test(error.message) ? error.message : `Something went wrong: ${error.message}.`;
  }
  return `Something went wrong: ${String(error)}.`;
}

/** A way out, where the sentence itself does not name one. */
export function wayOut(error: unknown): string | undefined {
  if (!(error instanceof EngineError)) return undefined;
  if (error.code === "base_required") return "Open it again with its base: under “Options”, name the base's address or choose its file.";
  if (refusalOf(error)) return "If it is private or gated, add an access token under “Options” and open it again.";
  if (error.code === "network") return "If the address is right, its server may not let other pages read it (CORS): download the file and drop it here.";
  if (error.code === "malformed" || error.code === "unsupported") return "This page reads .safetensors, .zstn, .z4dm, .zt, .gauss and index files of models in shards.";
  if (error.code === "limit") return "Look at some rows in the heatmap instead, or read it with the command line.";
  return undefined;
}

/** Whether the person stopped it, which is no error. */
export function wasStopped(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}
