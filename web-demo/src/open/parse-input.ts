/** Parsing the text of the address field or a link: a URL, or a repository of a hub. */

export const HUGGING_FACE = "https://huggingface.co";

export type Source =
  | { readonly kind: "address"; readonly address: string }
  | { readonly kind: "repository"; readonly hub: string; readonly repository: string; readonly revision: string; readonly path?: string };

/** File extensions: `folder/model.bin` is a file relative to the page, not a repository. */
const FILE = /\.(bin|ckpt|gauss|gguf|gz|h5|html?|json|msgpack|npy|npz|onnx|pickle|pkl|pth?|safetensors|tar|tflite|txt|z4dm|zip|zstn|zt)$/i;

const REPOSITORY = String.raw`\w[\w.-]*/\w[\w.-]*`;
/** Only these revisions of a hub have slashes. */
const REVISION = String.raw`refs/(?:pr|convert)/[\w.-]+|\w[\w.-]*`;
const NAME = new RegExp(`^(${REPOSITORY})(?:@(${REVISION}))?$`);
const HF_ADDRESS = new RegExp(`^hf://(${REPOSITORY})(?:@(${REVISION}))?(?:/(.+))?$`);

/**
 * Parses `owner/name` and `owner/name@revision`, which are repositories of Hugging Face; `hf://owner/name/file`
 * and `hf://owner/name@revision/file`; pages of Hugging Face, or of the hub at the address `hub`; and addresses.
 * Everything else is an address relative to the page, so that no hub learns a local path.
 */
export function parseInput(text: string, hub?: string): Source {
  const trimmed = text.trim();
  const named = nameIn(trimmed);
  if (named) return { kind: "repository", hub: HUGGING_FACE, ...named };
  const [, repository, revision = "main", path] = HF_ADDRESS.exec(trimmed) ?? [];
  if (repository) return { kind: "repository", hub: HUGGING_FACE, repository, revision, ...(path !== undefined && { path }) };
  return pageOf(HUGGING_FACE, trimmed) ?? (hub === undefined ? undefined : pageOf(hub, trimmed)) ?? { kind: "address", address: trimmed };
}

/** Returns the URL of a bare repository name at `hub`; any other text unchanged. */
export function spelledOut(text: string, hub: string): string {
  const named = nameIn(text.trim());
  if (!named) return text;
  const { repository, revision } = named;
  return `${hub}/${repository}${revision === "main" ? "" : `/tree/${encodeURIComponent(revision)}`}`;
}

/** Returns whether `text` is a URL below that of `hub`. */
export const isBelow = (hub: string, text: string): boolean => partsBelow(hub, text.trim()) !== undefined;

/** Returns the normalised URL of a hub; `undefined` if `text` is not an http(s) URL. */
export function hubAt(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, origin, pathname } = new URL(text);
  return /^https?:$/.test(protocol) ? `${origin}${pathname.replace(/\/+$/, "")}` : undefined;
}

/** Returns `owner/name/file` as a file on Hugging Face, `hf://…`; `undefined` for other texts. */
export function asFileOfRepository(text: string): string | undefined {
  const trimmed = text.trim();
  return new RegExp(`^${REPOSITORY}(?:@(?:${REVISION}))?/[^?#]+$`).test(trimmed) ? `hf://${trimmed}` : undefined;
}

/** Returns the last part of a URL, for display. */
export function nameOf(address: string): string {
  if (!URL.canParse(address, document.baseURI)) return address;
  const { pathname } = new URL(address, document.baseURI);
  return decoded(pathname.slice(pathname.lastIndexOf("/") + 1)) || address;
}

function nameIn(text: string): { repository: string; revision: string } | undefined {
  const [, repository, revision = "main"] = NAME.exec(text) ?? [];
  return repository === undefined || FILE.test(text) ? undefined : { repository, revision };
}

/** Parses the page of a repository at `hub`, or of a file in it. */
function pageOf(hub: string, text: string): Source | undefined {
  const [owner, name, what, revision, ...rest] = partsBelow(hub, text) ?? [];
  if (owner === undefined || name === undefined || owner === "api") return undefined;
  const repository = `${owner}/${name}`;
  if (!new RegExp(`^${REPOSITORY}$`).test(repository)) return undefined;
  if (what === undefined || (what === "tree" && rest.length === 0)) return { kind: "repository", hub, repository, revision: revision ?? "main" };
  if (what === "blob" && revision !== undefined && rest.length > 0) return { kind: "repository", hub, repository, revision, path: rest.join("/") };
  return undefined;
}

function partsBelow(hub: string, text: string): string[] | undefined {
  if (!URL.canParse(text)) return undefined;
  const { origin, pathname } = new URL(text);
  const root = new URL(hub);
  const folder = root.pathname.replace(/\/*$/, "/");
  if (origin !== root.origin || !pathname.startsWith(folder)) return undefined;
  return pathname.slice(folder.length).split("/").filter(Boolean).map(decoded);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a lone "%"
  }
}
