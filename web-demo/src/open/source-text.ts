/** What a person typed: an address, or a repository of the hub. */

export const DEFAULT_HUB = "https://huggingface.co";

export type Typed =
  | { readonly kind: "address"; readonly address: string }
  | { readonly kind: "repository"; readonly repository: string; readonly revision: string; readonly path?: string };

const MODEL_FILE = /\.(zstn|safetensors|z4dm|zt|gauss|json)$/i;

/** Understands an address, also that of a repository's page or of a file's page there, and `owner/name`, `owner/name@revision`, `owner/name/file`. */
export function understand(text: string, hub: string = DEFAULT_HUB): Typed {
  const trimmed = text.trim();
  const page = pageOfHub(trimmed, hub);
  if (page) return page;
  const short = /^([\w.-]+\/[\w.-]+?)(?:@([\w./-]+?))?(?:\/([^?#]+))?$/.exec(trimmed);
  if (!short || /^\.{0,2}\//.test(trimmed) || trimmed.includes("://")) return { kind: "address", address: trimmed };
  const [, repository, revision = "main", path] = short;
  // A relative address of a file with one folder looks the same, but for its ending.
  if (path === undefined && MODEL_FILE.test(repository!)) return { kind: "address", address: trimmed };
  if (path !== undefined && !MODEL_FILE.test(path)) return { kind: "address", address: trimmed };
  return { kind: "repository", repository: repository!, revision, ...(path !== undefined && { path }) };
}

function pageOfHub(text: string, hub: string): Typed | undefined {
  if (!URL.canParse(text) || new URL(text).origin !== new URL(hub).origin) return undefined;
  const [owner, name, what, revision, ...rest] = new URL(text).pathname.split("/").filter(Boolean).map(decodeURIComponent);
  if (!owner || !name || owner === "api") return undefined;
  const repository = `${owner}/${name}`;
  if (what === undefined || (what === "tree" && rest.length === 0)) return { kind: "repository", repository, revision: revision ?? "main" };
  if (what === "blob" && revision && rest.length > 0) return { kind: "repository", repository, revision, path: rest.join("/") };
  return undefined;
}

/** The last part of an address, to show. */
export function nameOf(address: string): string {
  if (!URL.canParse(address, document.baseURI)) return address;
  const { pathname } = new URL(address, document.baseURI);
  return decodeURIComponent(pathname.slice(pathname.lastIndexOf("/") + 1)) || address;
}
