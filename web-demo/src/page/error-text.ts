/** The texts of errors: the page's own sentence, advice, and the message of the package. */

import { hostOf } from "./origin.js";
import { accessErrorOf } from "./access-error.js";

/** An error of the package, created on the page or in the worker. */
interface CodedError {
  readonly code: string;
  readonly message: string;
  readonly status?: number | undefined;
  /** The URL of the failed request. */
  readonly url?: string | undefined;
}

/** Returns a sentence about an error, in the words of the page. */
export function errorText(error: unknown): string {
  const refusal = accessErrorOf(error);
  if (refusal) return refusal.message;
  const own = isCoded(error) ? ownText(error) : undefined;
  if (own !== undefined) return own;
  if (error instanceof Error && error.message !== "") {
    return /[.!?:)]$/.test(error.message) ? error.message : `Something went wrong: ${error.message}.`;
  }
  return `Something went wrong: ${String(error)}.`;
}

/** Returns the message of the package, if the page shows its own sentence instead. */
export function errorDetails(error: unknown): string | undefined {
  return isCoded(error) && !accessErrorOf(error) && ownText(error) !== undefined ? error.message : undefined;
}

/** Returns advice for the user after an error; `undefined` if the text of the error already contains it. */
export function suggestedAction(error: unknown): string | undefined {
  if (!isCoded(error)) return undefined;
  if (accessErrorOf(error)) return "If it is private or gated, add an access token and open it again.";
  switch (error.code) {
    case "network":
    case "range_not_supported":
    case "content_encoding":
      return "If the address is right, download the file and drop it here.";
    case "malformed":
    case "unsupported":
      return isRecognised(error) ? undefined : "This page reads .safetensors, .zstn, .z4dm, .zt, .gauss, .gguf, .npy, .npz, .pt, .onnx, .msgpack, .tflite, .h5, .keras, .nemo and index files of models in shards.";
    case "limit":
      return isNoModel(error) ? undefined : "View some rows in the heatmap instead, or use the command line.";
    default:
      return undefined;
  }
}

/** Returns whether the user cancelled the action, which is not an error. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}

const isCoded = (error: unknown): error is CodedError & Error => error instanceof Error && "code" in error && typeof error.code === "string";

/** Returns whether an error is about a delta of several models, which the page cannot open. */
export const isMerged = (error: unknown): boolean => isCoded(error) && /(bases|checkpoints) together/.test(error.message);

/** Returns the page's own sentence for an error of the package; `undefined` if the package's message is used. */
function ownText(error: CodedError): string | undefined {
  if (isNoModel(error)) return "Not a model file this page can read.";
  if (isMerged(error)) return "This model was merged from several others. Restore it with zstn unpack.";
  const host = error.url === undefined || !URL.canParse(error.url) ? "The server" : hostOf(new URL(error.url).origin);
  switch (error.code) {
    case "base_required":
      return "This is a delta: choose the model it was made from.";
    case "wrong_base":
      return "This delta was made from another model. Choose the one it was made from.";
    case "http":
      return httpText(error, host);
    case "network":
      return `Could not read from ${host}. The address may be wrong, or the server does not let web pages read its files (CORS).`;
    case "range_not_supported":
      return `${host} cannot send parts of files, and this file is too large to load whole.`;
    case "content_encoding":
      return `${host} compresses the file on its way, so that parts of it cannot be read.`;
    case "truncated":
      return "The file is incomplete.";
    case "changed":
      // If several servers answer, the message already names both versions and the remedy.
      return error.message.includes(" instead of ") ? undefined : "The file has changed since it was opened. Open it again.";
    case "read":
      return "The file could not be read. If it was changed or moved, choose it again.";
    case "malformed":
      return isRecognised(error) ? undefined : "The file is damaged here, or is not what its name says.";
    case "limit":
      return "This is too large to load in a browser.";
    case "core":
      if (/is not built yet/.test(error.message)) return "This part of the page is not built yet. Run cargo xtask wasm and reload.";
      return "A part of this page could not be loaded. Reload the page to try again.";
    case "internal":
    case "worker":
      return "The decoder of this page failed. Reload the page to start again.";
    default:
      return undefined;
  }
}

function httpText({ status, url }: CodedError, host: string): string | undefined {
  if (status === 404 || status === 410) return `There is no file at ${url} (status ${status}).`;
  if (status === 429) return `${host} has had too many requests (status 429). Try again in a minute.`;
  if (status !== undefined && status >= 500) return `${host} has a problem (status ${status}). Try again later.`;
  return undefined;
}

/** Returns whether the package recognised the file as another format and its message names that format. */
const isRecognised = ({ message }: CodedError): boolean => /\bThis (is|file is) an? |\bis (a web page|an XML|a Git LFS)/.test(message);

/** Returns whether the first bytes show that the file is not a model at all. */
const isNoModel = (error: CodedError): boolean =>
  ["malformed", "unsupported", "limit"].includes(error.code) && !isRecognised(error) && /its first bytes are|header of (about )?\d+ bytes is over the cap/.test(error.message);
