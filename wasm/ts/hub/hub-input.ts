/** `hub()`, which turns a model in a hub repository into an input of `open` or `pack`. */

import { checkOptions } from "../known-options.js";
import type { OptionNames } from "../known-options.js";
import { InvalidInputError } from "../errors.js";
import type { HubInput, HubLocation, LocateOptions } from "../model-input.js";
import { fileUrl, hasOddComponent } from "./address.js";
import type { HubAddress } from "./address.js";
import { chooseFiles, isModelFile } from "./choice.js";
import { fetchOf } from "./client.js";
import { HubFileError } from "./error.js";
import { describeFiles } from "./file-names.js";
import { addressOf, withToken } from "./login.js";
import type { RepositoryOptions } from "./login.js";
import { isCommit, readSnapshot } from "./repository.js";

/** Options of `hub`. */
export interface HubOptions extends RepositoryOptions {
  /** The path of the file to open, or of a folder that contains it. By default the repository's model is found. */
  file?: string;
}

/**
 * Returns a model in a hub repository as an input of `open` or `pack`. Accepts `owner/name`, `owner/name@revision`,
 * `owner/name/file`, the same after `hf://`, the URL of a page of the repository, and the result of `parseHubAddress`.
 *
 * Without a file, the first match is opened: the index of a model in several files, then `model.…`, then the only
 * readable file. Packed files come before plain ones, and the top folder before others. All files that are read belong
 * to one commit. Throws an `InvalidInputError` for a text that names no repository.
 */
export function hub(repository: string | HubAddress, options: HubOptions = {}): HubInput {
  checkOptions("hub()", options, { file: 1, revision: 1, endpoint: 1, token: 1 } satisfies OptionNames<HubOptions>);
  const { file, token } = options;
  const parsed = addressOf(repository, options);
  if (file !== undefined && parsed.file !== undefined && file !== parsed.file) {
    throw new InvalidInputError(`The address names the file ${parsed.file}, and the option \`file\` another one (${file}).`);
  }
  const address = file === undefined ? parsed : { ...parsed, file: checkedPath(file) };
  return {
    origin: new URL(address.endpoint).origin,
    locate: async (options: LocateOptions = {}) => locate(address, await withToken(address, token, options)),
  };
}

function checkedPath(path: string): string {
  const checked = path.replace(/\/$/, "");
  if (hasOddComponent(checked)) throw new InvalidInputError(`The file of a repository is a path such as folder/model.zstn, and not ${path || "empty"}.`);
  return checked;
}

async function locate(address: HubAddress, options: LocateOptions): Promise<HubLocation> {
  const { file, revision } = address;
  // A commit never changes, and a missing file is reported when it is read, so the API is not needed. The name must
  // have a known extension, because folder names contain dots too.
  const isPinned = file !== undefined && isCommit(revision) && (isModelFile(file) || file.endsWith(".json"));
  const snapshot = isPinned ? { address, revision: revision!, paths: [file] } : await readSnapshot(address, options);
  const found = fileOf(snapshot.address, snapshot.paths);
  return {
    url: fileUrl(snapshot.address, snapshot.revision, found),
    repository: snapshot.address.repository,
    revision: snapshot.revision,
    file: found,
    options: { ...(options.token !== undefined && { token: options.token }), fetch: fetchOf({ ...snapshot.address, revision }, options) },
  };
}

/** Returns the path of the file to open. */
function fileOf({ repository, file }: HubAddress, paths: readonly string[]): string {
  const isFolder = file !== undefined && !paths.includes(file) && paths.some((path) => path.startsWith(`${file}/`));
  if (file !== undefined && !isFolder) return file;
  const candidates = chooseFiles(paths, isFolder ? `${file}/` : "");
  if (candidates.length === 1) return candidates[0]!;
  const where = isFolder ? `The folder ${file} of ${repository}` : `The repository ${repository}`;
  const message =
    candidates.length > 1
      ? `${where} has several models. Choose one with the option \`file\`: ${listOf(candidates)}.`
      : `${where} has no file that can be read: no .zstn, .safetensors, .zt, .gauss, .gguf, .npy, .npz, .pt, .h5, .keras, .nemo, .onnx, .msgpack or .tflite. ${describeFiles(isFolder ? paths.filter((path) => path.startsWith(`${file}/`)) : paths)}`;
  throw new HubFileError(repository, candidates, paths, message);
}

/** Returns the first few of many paths, for an error message. */
function listOf(paths: readonly string[]): string {
  const few = paths.slice(0, 8).join(", ");
  return paths.length > 8 ? `${few} and ${paths.length - 8} more` : few;
}
