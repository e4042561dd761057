/** Files that lie beside another one: the shards of a checkpoint, its `config.json`. */

import { HttpError, ReadError } from "./errors.js";
import type { Openable, OpenOptions, Platform } from "./open.js";

/** Finds a file by its name; `undefined` where nothing can lie beside. */
export type Beside = (name: string) => Openable | undefined;

/** The files beside `openable`. */
export function besideOf(openable: Openable, options: OpenOptions, platform: Pick<Platform, "resolve" | "beside">): Beside {
  if (options.beside) return options.beside;
  if (typeof openable !== "string" && !(openable instanceof URL)) return () => undefined;
  return (name) => {
    const resolved = platform.resolve(openable);
    if (!(resolved instanceof URL)) return platform.beside?.(openable, name);
    if (!/^https?:$/.test(resolved.protocol)) return undefined;
    const url = new URL(encodeURIComponent(name), resolved);
    // Hubs put "?download=true" there, and some put access keys.
    url.search = resolved.search;
    return url;
  };
}

/** Whether an error says that there is no such file. */
export function isAbsent(error: unknown): boolean {
  if (error instanceof HttpError) return error.status === 404 || error.status === 410;
  return error instanceof ReadError && (error.cause as { code?: unknown } | undefined)?.code === "ENOENT";
}
