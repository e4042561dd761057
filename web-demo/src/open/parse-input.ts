/**
 * Recognises the names of repositories and the addresses of hubs in a text. The worker parses them completely
 * (engine/resolve.ts).
 */

export const HUGGING_FACE = "https://huggingface.co";

/** Matches names with file extensions: `folder/model.bin` is a file relative to the page, not a repository. */
const FILE = /\.(bin|ckpt|gauss|gguf|gz|h5|html?|json|keras|msgpack|nemo|npy|npz|onnx|pb|pickle|pkl|pth?|safetensors|tar|tflite|txt|z4dm|zip|zstn|zt)$/i;

/**
 * Matches repository names, which have one or two components, and captures the name and the revision. A text with a third
 * component is a path, which must not be sent to a hub. The package also accepts no component that ends with a dot or a
 * hyphen or has two dots in a row.
 */
const NAME = /^(?!buckets\/|[^/]*@refs\/|[^@]*(?:\.\.|[.-](?:[/@]|$)))(\w[\w.-]{0,95}(?:\/\w[\w.-]{0,95})?)(?:@(refs\/(?:pr\/\d+|convert\/[\w.-]+)|\w[\w.-]*))?$/;

const matchName = (text: string): RegExpExecArray | null => (FILE.test(text) ? null : NAME.exec(text));

/**
 * Returns whether `text` means a repository of Hugging Face: `name`, `owner/name` or `owner/name@revision`, unless it ends
 * like a file, or `hf://…`.
 */
export const isRepository = (text: string): boolean => isHubUrl(text) || matchName(text) !== null;

/** Returns whether `text` begins with `hf://`. */
export const isHubUrl = (text: string): boolean => /^hf:\/\//i.test(text);

/** Returns the URL of a bare repository name at `hub`, and any other text unchanged. */
export function spelledOut(text: string, hub: string): string {
  const found = matchName(text.trim());
  if (!found) return text;
  const [, repository, revision] = found;
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
