/** Converts errors for messages between threads. */

import type { SerializedError } from "./protocol.js";

export function serializeError(error: unknown): SerializedError {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  const { name } = error;
  // If a module could not be loaded, the reason is only in the cause.
  const cause = "code" in error && error.code === "core" && error.cause instanceof Error ? ` (${error.cause.message})` : "";
  const message = error.message + cause;
  const code = "code" in error && typeof error.code === "string" ? { code: error.code } : {};
  const status = "status" in error && typeof error.status === "number" ? { status: error.status } : {};
  const url = "url" in error && typeof error.url === "string" ? { url: error.url } : {};
  const origin = "origin" in error && typeof error.origin === "string" ? { origin: error.origin } : {};
  return { name, message, ...code, ...status, ...url, ...origin };
}
