/** Parses the text of the address field or of a link: a URL, or a repository of a hub. */

import { HUGGING_FACE, parseHubAddress } from "zstn/hub";
import type { HubAddress } from "zstn/hub";

export { HUGGING_FACE };

export type Source = { readonly kind: "address"; readonly address: string } | { readonly kind: "repository"; readonly repository: HubAddress };

/** Matches names with file extensions: `folder/model.bin` is a file relative to the page, not a repository. */
const FILE = /\.(bin|ckpt|gauss|gguf|gz|h5|html?|json|keras|msgpack|nemo|npy|npz|onnx|pb|pickle|pkl|pth?|safetensors|tar|tflite|txt|z4dm|zip|zstn|zt)$/i;

/**
 * Matches repository names, which have one or two components. A text with a third one is a path, which must not be sent
 * to a hub.
 */
const NAME = /^\w[\w.-]*(?:\/\w[\w.-]*)?(?:@(?:refs\/(?:pr|convert)\/[\w.-]+|\w[\w.-]*))?$/;

/**
 * Parses `name`, `owner/name` and `owner/name@revision`, which are repositories of Hugging Face unless they end like a
 * file; `hf://…`; page URLs of Hugging Face, or of the hub at the address `hub`; and other addresses. Any other text is
 * an address relative to the page, so that no hub receives a local path.
 */
export function parseInput(text: string, hub?: string): Source {
  const trimmed = text.trim();
  const isName = NAME.test(trimmed) && !FILE.test(trimmed);
  const found = isName || isHubUrl(trimmed) ? repositoryOf(trimmed) : (pageBelow(HUGGING_FACE, trimmed) ?? (hub === undefined ? undefined : pageBelow(hub, trimmed)));
  return found ? { kind: "repository", repository: found } : { kind: "address", address: trimmed };
}

/** Returns whether `text` begins with `hf://`. */
export const isHubUrl = (text: string): boolean => /^hf:\/\//i.test(text);

/** Returns the URL of a bare repository name at `hub`, and any other text unchanged. */
export function spelledOut(text: string, hub: string): string {
  const trimmed = text.trim();
  const found = isHubUrl(trimmed) ? undefined : parseInput(trimmed);
  if (found?.kind !== "repository" || /^https?:/i.test(trimmed)) return text;
  const { repository, revision } = found.repository;
  return `${hub}/${repository}${revision === undefined || revision === "main" ? "" : `/tree/${encodeURIComponent(revision)}`}`;
}

/** Returns whether `text` is a URL below the URL of `hub`. */
export function isBelow(hub: string, text: string): boolean {
  const trimmed = text.trim();
  if (!URL.canParse(trimmed)) return false;
  const { origin, pathname } = new URL(trimmed);
  const root = new URL(hub);
  return origin === root.origin && pathname.startsWith(root.pathname.replace(/\/*$/, "/"));
}

/** Returns the normalised URL of a hub; `undefined` if `text` is not an http(s) URL. */
export function hubAt(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, origin, pathname } = new URL(text);
  return /^https?:$/.test(protocol) ? `${origin}${pathname.replace(/\/+$/, "")}` : undefined;
}

/** Returns the address `hf://owner/name/file` for a text `owner/name/file`; `undefined` for other texts. */
export function asFileOfRepository(text: string): string | undefined {
  const trimmed = text.trim();
  if (isHubUrl(trimmed) || /^https?:|[?#]|\/$/i.test(trimmed)) return undefined;
  return repositoryOf(trimmed)?.file === undefined ? undefined : `hf://${trimmed}`;
}

/** Returns the last path component of a URL, for display. */
export function nameOf(address: string): string {
  if (!URL.canParse(address, document.baseURI)) return address;
  const { pathname } = new URL(address, document.baseURI);
  return decoded(pathname.slice(pathname.lastIndexOf("/") + 1)) || address;
}

function pageBelow(hub: string, text: string): HubAddress | undefined {
  return isBelow(hub, text) ? repositoryOf(text, hub) : undefined;
}

function repositoryOf(text: string, hub?: string): HubAddress | undefined {
  try {
    return parseHubAddress(text, hub);
  } catch {
    return undefined;
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a lone "%"
  }
}
