/** Errors in messages between threads. */

import type { SerializedError } from "./protocol.js";

export function serializeError(error: unknown): SerializedError {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  const { name, message } = error;
  const code = "code" in error && typeof error.code === "string" ? { code: error.code } : {};
  const status = "status" in error && typeof error.status === "number" ? { status: error.status } : {};
  const url = "url" in error && typeof error.url === "string" ? { url: error.url } : {};
  return { name, message, ...code, ...status, ...url };
}
